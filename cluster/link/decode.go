package link

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"troupe/messages"
)

// messagePackage is the protobuf package of the messages that actors on different nodes exchange.
const messagePackage = "troupe.v1."

// allowedActorMessages are the messages of protoactor itself that nodes may send to each other. Any
// other would let a peer stop, restart or spawn our actors.
var allowedActorMessages = map[string]bool{
	"actor.Watch":              true,
	"actor.Unwatch":            true,
	"actor.Terminated":         true,
	"actor.DeadLetterResponse": true,
}

// decode unmarshals a message from a peer. The reason and the error are for the sending actor.
func decode(kind string, data []byte, peer, self string) (proto.Message, messages.Reason, error) {
	if !strings.HasPrefix(kind, messagePackage) && !allowedActorMessages[kind] {
		return nil, messages.Reason_REASON_FORBIDDEN,
			fmt.Errorf("%s refuses %q from %s: not a message between nodes", self, kind, peer)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(kind))
	if err != nil {
		return nil, messages.Reason_REASON_UNSUPPORTED,
			fmt.Errorf("%s does not know %s, sent by %s: %s is the older node; upgrade it", self, kind, peer, self)
	}
	message := t.New().Interface()
	if err := proto.Unmarshal(data, message); err != nil {
		return nil, messages.Reason_REASON_UNSUPPORTED,
			fmt.Errorf("%s cannot read %s, sent by %s: %w; run one version on both", self, kind, peer, err)
	}
	return message, messages.Reason_REASON_UNSPECIFIED, nil
}
