package bulk

import (
	"encoding/binary"
	"time"
)

// maxUnread bounds the bytes of answers that wait for a sender that does not read them.
const maxUnread = 1 << 20

// leaveWithin bounds how long a plane that closes talks to a sender.
const leaveWithin = time.Second

// answer says of a chunk that it was acked or damaged.
func (in *inbound) answer(stream, index uint32, how kind) {
	in.mu.Lock()
	defer in.mu.Unlock()
	entries := &in.acked
	if how == damaged {
		entries = &in.damaged
	}
	*entries = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(*entries, stream), index)
	in.queued()
}

// send queues another small frame.
func (in *inbound) send(h header, payload []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.frames = appendFrame(in.frames, h, payload)
	in.queued()
}

// leave sends what there is to be said, then closes. A connection that has opened no transfer has nothing to hear.
func (in *inbound) leave() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.trusted {
		in.conn.Close()
	}
	in.leaving = true
	_ = in.conn.SetWriteDeadline(time.Now().Add(leaveWithin))
	in.queued()
}

// queued wakes the writer. in.mu is held.
func (in *inbound) queued() {
	if len(in.acked)+len(in.damaged)+len(in.frames) > maxUnread {
		in.conn.Close()
	}
	select {
	case in.kick <- struct{}{}:
	default:
	}
}

// write sends answers, those that have come together in one piece, until the connection ends.
func (in *inbound) write() {
	var b []byte
	for {
		select {
		case <-in.gone:
			return
		case <-in.kick:
		}
		var leaving bool
		b, leaving = in.answers(b[:0])
		if !leaving {
			_ = in.conn.SetWriteDeadline(time.Now().Add(in.plane.cfg.SilentAfter))
		}
		if _, err := in.conn.Write(b); err != nil {
			in.conn.Close()
			return
		}
		if leaving {
			in.hangUp()
			return
		}
	}
}

// hangUp lets the sender read the last answers: closing at once, with chunks unread, would take them away.
func (in *inbound) hangUp() {
	_ = in.conn.SetReadDeadline(time.Now().Add(leaveWithin))
	if half, ok := in.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// answers appends to b what is to be sent.
func (in *inbound) answers(b []byte) (_ []byte, leaving bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	b = append(b, in.frames...)
	b = appendEntries(b, acked, in.acked)
	b = appendEntries(b, damaged, in.damaged)
	in.frames, in.acked, in.damaged = in.frames[:0], in.acked[:0], in.damaged[:0]
	return b, in.leaving
}

func appendEntries(b []byte, of kind, entries []byte) []byte {
	for len(entries) > 0 {
		n := min(len(entries), maxAckBytes)
		b = appendFrame(b, header{kind: of}, entries[:n])
		entries = entries[n:]
	}
	return b
}
