package link

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"troupe/messages"
)

// words is the package of all messages that actors of nodes share.
const words = "troupe.v1."

// between are the messages of protoactor itself that nodes may send each other. All others would let a peer stop, restart or
// spawn our actors.
var between = map[string]bool{"actor.Watch": true, "actor.Unwatch": true, "actor.Terminated": true, "actor.DeadLetterResponse": true}

// decode reads a message that a peer sent. Where it fails, the reason and the error are for the peer's actor.
func decode(kind string, data []byte, peer, self string) (proto.Message, messages.Reason, error) {
	if !strings.HasPrefix(kind, words) && !between[kind] {
		return nil, messages.Reason_REASON_FORBIDDEN, fmt.Errorf("%s refuses %q from %s: it is not sent between nodes", self, kind, peer)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(kind))
	if err != nil {
		return nil, messages.Reason_REASON_UNSUPPORTED,
			fmt.Errorf("%s does not know %s, which %s sent: %s is the older node; upgrade it", self, kind, peer, self)
	}
	message := t.New().Interface()
	if err := proto.Unmarshal(data, message); err != nil {
		return nil, messages.Reason_REASON_UNSUPPORTED,
			fmt.Errorf("%s can not read %s, which %s sent: %w; run one version on both", self, kind, peer, err)
	}
	return message, messages.Reason_REASON_UNSPECIFIED, nil
}
