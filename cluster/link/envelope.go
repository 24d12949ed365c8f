package link

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

const (
	// batchBytes is the target size of the payload of one gRPC message.
	batchBytes = 64 << 10
	// maxPayloadBytes leaves room in a gRPC message for the batch around the payload.
	maxPayloadBytes = maxMessageBytes - 2*batchBytes
)

// envelope is one message between nodes. Remote's MessageBatch carries several.
type envelope struct {
	kind           string // full name of its type
	data           []byte
	target, sender *actor.PID // sender may be nil
	header         map[string]string
}

// newEnvelope marshals a message. It fails if the message is not a protobuf, has a string that is
// not UTF-8, is too large, or changes meanwhile.
func newEnvelope(target, sender *actor.PID, header actor.ReadonlyMessageHeader, message any) (l envelope, err error) {
	m, ok := message.(proto.Message)
	if !ok {
		return envelope{}, errors.New("only protobuf messages can be sent between nodes")
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a message must not change after it is sent: marshalling it panicked: %v", p)
		}
	}()
	l = envelope{kind: string(proto.MessageName(m)), target: target, sender: sender}
	if header != nil && header.Length() > 0 {
		l.header = header.ToMap()
	}
	if bytes := proto.Size(m); bytes > maxPayloadBytes {
		return envelope{}, fmt.Errorf(
			"message of %d bytes is too large: send at most %d at once",
			bytes,
			maxPayloadBytes,
		)
	}
	l.data, err = proto.MarshalOptions{UseCachedSize: true}.Marshal(m)
	return l, err
}

// pack puts envelopes into a batch until it is full and returns their number. A type, target or
// sender that equals the one before is written once.
func pack(letters []envelope) (b *remote.MessageBatch, n int) {
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

// unpack reads one envelope of a batch from a peer. It checks every index, which remote's own reader
// does not.
func unpack(batch *remote.MessageBatch, e *remote.MessageEnvelope, address string) (envelope, error) {
	switch {
	case e == nil || e.SerializerId != 0:
		return envelope{}, errors.New("message is not protobuf")
	case e.TypeId < 0 || int(e.TypeId) >= len(batch.TypeNames):
		return envelope{}, fmt.Errorf("type index %d out of %d", e.TypeId, len(batch.TypeNames))
	case e.Target < 0 || int(e.Target) >= len(batch.Targets):
		return envelope{}, fmt.Errorf("target index %d out of %d", e.Target, len(batch.Targets))
	case e.Sender < 0 || int(e.Sender) > len(batch.Senders):
		return envelope{}, fmt.Errorf("sender index %d out of %d", e.Sender, len(batch.Senders))
	}
	l := envelope{kind: batch.TypeNames[e.TypeId], data: e.MessageData, header: e.GetMessageHeader().GetHeaderData()}
	l.target = &actor.PID{Address: address, Id: batch.Targets[e.Target], RequestId: e.TargetRequestId}
	if e.Sender > 0 {
		from := batch.Senders[e.Sender-1]
		l.sender = &actor.PID{Address: from.GetAddress(), Id: from.GetId(), RequestId: e.SenderRequestId}
	}
	return l, nil
}
