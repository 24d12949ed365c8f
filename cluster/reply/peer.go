package reply

import (
	"context"
	"crypto/rand"

	"github.com/nats-io/nats.go"
)

// AskPeer sends a request to another node and returns its answer. It expects the answer below
// PeerInbox: nodes do not answer below NodeInbox, where the connection would expect it.
func AskPeer(ctx context.Context, conn *nats.Conn, subject string, body []byte) (*nats.Msg, error) {
	inbox := PeerInbox + "." + rand.Text()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // of a closed connection it is gone already
	if err := conn.PublishRequest(subject, inbox, body); err != nil {
		return nil, err
	}
	return sub.NextMsgWithContext(ctx)
}
