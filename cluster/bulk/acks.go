package bulk

import (
	"encoding/binary"
	"time"
)

// maxQueuedBytes limits the answers queued for a sender that does not read them.
const maxQueuedBytes = 1 << 20

// lingerTimeout limits how long a closing plane waits for a sender.
const lingerTimeout = time.Second

// queueAck queues an ACKED or DAMAGED entry for a chunk.
func (in *inbound) queueAck(stream, index uint32, how kind) {
	in.mu.Lock()
	defer in.mu.Unlock()
	entries := &in.acked
	if how == damaged {
		entries = &in.damaged
	}
	*entries = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(*entries, stream), index)
	in.wakeWriter()
}

// send queues another small frame.
func (in *inbound) send(h header, payload []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.frames = appendFrame(in.frames, h, payload)
	in.wakeWriter()
}

// drain sends the queued answers and then closes the connection. A connection that has opened no
// transfer is closed at once.
func (in *inbound) drain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.trusted {
		in.conn.Close()
	}
	in.draining = true
	_ = in.conn.SetWriteDeadline(in.plane.now().Add(lingerTimeout))
	in.wakeWriter()
}

// wakeWriter wakes the writer. in.mu is held.
func (in *inbound) wakeWriter() {
	if len(in.acked)+len(in.damaged)+len(in.frames) > maxQueuedBytes {
		in.conn.Close()
	}
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// write sends queued answers, all of them at a time, until the connection ends.
func (in *inbound) write() {
	var b []byte
	for {
		select {
		case <-in.readerDone:
			return
		case <-in.wake:
		}
		var leaving bool
		b, leaving = in.takeQueued(b[:0])
		if !leaving {
			_ = in.conn.SetWriteDeadline(in.plane.now().Add(in.plane.cfg.SilentAfter))
		}
		if _, err := in.conn.Write(b); err != nil {
			in.conn.Close()
			return
		}
		if leaving {
			in.lingerClose()
			return
		}
	}
}

// lingerClose lets the sender read the last answers. Closing at once with unread chunks would
// discard them.
func (in *inbound) lingerClose() {
	_ = in.conn.SetReadDeadline(in.plane.now().Add(lingerTimeout))
	if half, ok := in.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// takeQueued appends the queued answers to b.
func (in *inbound) takeQueued(b []byte) (_ []byte, leaving bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	b = append(b, in.frames...)
	b = appendEntries(b, acked, in.acked)
	b = appendEntries(b, damaged, in.damaged)
	in.frames, in.acked, in.damaged = in.frames[:0], in.acked[:0], in.damaged[:0]
	return b, in.draining
}

func appendEntries(b []byte, of kind, entries []byte) []byte {
	for len(entries) > 0 {
		n := min(len(entries), maxAckBytes)
		b = appendFrame(b, header{kind: of}, entries[:n])
		entries = entries[n:]
	}
	return b
}
