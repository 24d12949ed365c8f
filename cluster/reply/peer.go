package reply

import (
	"context"

	"github.com/nats-io/nats.go"

	"troupe/actors/supervise"
)

// AskPeer sends a request to another node and returns its answer. It expects the answer below
// PeerInbox, since nodes do not answer below NodeInbox, the connection's own inbox.
func AskPeer(
	ctx context.Context, rt supervise.Runtime, conn *nats.Conn, subject string, body []byte,
) (*nats.Msg, error) {
	inbox := PeerInbox + "." + rt.ID()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := conn.PublishRequest(subject, inbox, body); err != nil {
		return nil, err
	}
	return sub.NextMsgWithContext(ctx)
}
