package service

import (
	"encoding/json"

	"github.com/nats-io/nats.go"

	"troupe/cluster/reply"
)

// requestInfo is the header in which nats-server names the client of a service import.
const requestInfo = "Nats-Request-Info"

// Unknown is the name of a client that cannot be identified.
const Unknown = "unknown"

// Sender identifies the client of a request, as far as it is known.
type Sender struct {
	Account string // "" if unknown
	User    string // name or nkey; only if the import has share: true
}

// Name returns the sender's name for logs: the user if known, else the account, else Unknown.
func (s Sender) Name() string {
	switch {
	case s.Account != "" && s.User != "":
		return s.Account + "/" + s.User
	case s.Account != "":
		return s.Account
	}
	return Unknown
}

// senderOf reads the sender of a message. It trusts the header only in a request that came through
// a service import. There nats-server replaces the client's header, and clients cannot use a reply
// subject below _R_. A leaf node's server, or one without that check, could forge it, so the
// operator must enable trust. Two headers are a forgery.
func senderOf(msg *nats.Msg, trusted bool) Sender {
	var s Sender
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
