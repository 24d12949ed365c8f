package link

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

const (
	// batchBytes is about what one gRPC message carries.
	batchBytes = 64 << 10
	// maxLetterBytes leaves room in a gRPC message for the batch around it.
	maxLetterBytes = maxMessageBytes - 2*batchBytes
)

// letter is one message on its way between nodes. Remote's MessageBatch carries many.
type letter struct {
	kind           string // full name of its type
	data           []byte
	target, sender *actor.PID // sender may be nil
	header         map[string]string
}

// seal marshals a message. It fails where the message can not travel: it is no protobuf, has a string that is not UTF-8, is too
// large, or is changed meanwhile.
func seal(target, sender *actor.PID, header actor.ReadonlyMessageHeader, message any) (l letter, err error) {
	m, ok := message.(proto.Message)
	if !ok {
		return letter{}, errors.New("only protobuf messages travel between nodes")
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a message must not change once it is sent: marshalling it panicked: %v", p)
		}
	}()
	l = letter{kind: string(proto.MessageName(m)), target: target, sender: sender}
	if header != nil && header.Length() > 0 {
		l.header = header.ToMap()
	}
	if bytes := proto.Size(m); bytes > maxLetterBytes {
		return letter{}, fmt.Errorf("it has %d bytes: send at most %d at once", bytes, maxLetterBytes)
	}
	l.data, err = proto.MarshalOptions{UseCachedSize: true}.Marshal(m)
	return l, err
}

// pack puts letters into a batch until it is full, and returns how many. What the next letter shares with the one before it is
// written once.
func pack(letters []letter) (b *remote.MessageBatch, n int) {
	b = &remote.MessageBatch{}
	for bytes := 0; n < len(letters) && bytes < batchBytes; n++ {
		l := &letters[n]
		bytes += len(l.data)
		if n == 0 || l.kind != letters[n-1].kind {
			b.TypeNames = append(b.TypeNames, l.kind)
		}
		if n == 0 || l.target.Id != letters[n-1].target.Id {
			b.Targets = append(b.Targets, l.target.Id)
		}
		e := &remote.MessageEnvelope{
			TypeId: int32(len(b.TypeNames) - 1), MessageData: l.data,
			Target: int32(len(b.Targets) - 1), TargetRequestId: l.target.RequestId,
		}
		if l.sender != nil {
			b.Senders = addSender(b.Senders, l.sender)
			e.Sender, e.SenderRequestId = int32(len(b.Senders)), l.sender.RequestId // counted from 1
		}
		if l.header != nil {
			e.MessageHeader = &remote.MessageHeader{HeaderData: l.header}
		}
		b.Envelopes = append(b.Envelopes, e)
	}
	return b, n
}

func addSender(all []*actor.PID, pid *actor.PID) []*actor.PID {
	if n := len(all); n > 0 && all[n-1].Id == pid.Id && all[n-1].Address == pid.Address {
		return all
	}
	return append(all, actor.NewPID(pid.Address, pid.Id))
}

// open takes one letter out of a batch that a peer sent. It checks every index, which remote's own reader does not.
func open(batch *remote.MessageBatch, e *remote.MessageEnvelope, address string) (letter, error) {
	switch {
	case e == nil || e.SerializerId != 0:
		return letter{}, errors.New("it is not protobuf")
	case e.TypeId < 0 || int(e.TypeId) >= len(batch.TypeNames):
		return letter{}, fmt.Errorf("it has type %d of %d", e.TypeId, len(batch.TypeNames))
	case e.Target < 0 || int(e.Target) >= len(batch.Targets):
		return letter{}, fmt.Errorf("it is for target %d of %d", e.Target, len(batch.Targets))
	case e.Sender < 0 || int(e.Sender) > len(batch.Senders):
		return letter{}, fmt.Errorf("it is from sender %d of %d", e.Sender, len(batch.Senders))
	}
	l := letter{kind: batch.TypeNames[e.TypeId], data: e.MessageData, header: e.GetMessageHeader().GetHeaderData()}
	l.target = &actor.PID{Address: address, Id: batch.Targets[e.Target], RequestId: e.TargetRequestId}
	if e.Sender > 0 {
		from := batch.Senders[e.Sender-1]
		l.sender = &actor.PID{Address: from.GetAddress(), Id: from.GetId(), RequestId: e.SenderRequestId}
	}
	return l, nil
}
