package service

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"

	"troupe/cluster/reply"
)

// requestInfo is the header in which nats-server names the client of a service import.
const requestInfo = "Nats-Request-Info"

// Unknown is the name of a client that cannot be identified.
const Unknown = "unknown"

// Sender is what is known of the client of a request.
type Sender struct {
	Subject string // of the request
	Account string // "" where it is not known
	User    string // name or nkey; only where the import has share: true
}

// Name returns how logs name the sender: the user where it is known, else the account, else
// Unknown.
func (s Sender) Name() string {
	switch {
	case s.Account != "" && s.User != "":
		return s.Account + "/" + s.User
	case s.Account != "":
		return s.Account
	}
	return Unknown
}

// senderOf reads the sender of a message. The header is only trusted in a request that came through
// a service import: there nats-server replaces what the client wrote, and no client can use a reply
// subject below _R_ itself. A server of a leaf node could, and so could a server without that
// check, so trust is for the operator to give. Two headers are a forgery.
func senderOf(msg *nats.Msg, trusted bool) Sender {
	s := Sender{Subject: msg.Subject}
	values := msg.Header.Values(requestInfo)
	if !trusted || !reply.AcrossAccounts(msg.Reply) || len(values) != 1 {
		return s
	}
	var info struct {
		Account string `json:"acc"`
		User    string `json:"user"`
	}
	if json.Unmarshal([]byte(values[0]), &info) == nil {
		s.Account, s.User = info.Account, info.User
	}
	return s
}

type senderKey struct{}

// WithSender returns a context of a request.
func WithSender(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

// SenderOf returns the sender of the request that a context is of. It is empty for requests that
// did not come over NATS.
func SenderOf(ctx context.Context) Sender {
	s, _ := ctx.Value(senderKey{}).(Sender)
	return s
}
