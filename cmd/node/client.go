package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"troupe/cluster/security"
	"troupe/core/units"
	"troupe/messages"
)

const (
	// requestTimeout bounds a request with all its attempts.
	requestTimeout = 8 * time.Second
	// attemptTimeout bounds one attempt. It is longer than a node waits for other nodes.
	attemptTimeout = 2 * time.Second
)

// clusterClient holds the flags of commands that connect to a running cluster.
type clusterClient struct {
	NATS string `name:"nats" env:"TROUPE_NATS" placeholder:"URL" default:"nats://${nats}" help:"${natshelp}"`
	natsLogin
}

// redactedURL returns the server URL without its password, for messages.
func (r clusterClient) redactedURL() string { return security.WithoutSecrets(r.NATS) }

// connect connects to NATS under a client name.
func (r clusterClient) connect(who string) (*nats.Conn, error) {
	as, err := r.options()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(
		r.NATS,
		append(as, nats.Name(who), nats.Timeout(requestTimeout), nats.ErrorHandler(ignoreError))...)
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w; %s", r.redactedURL(), err,
			security.Remedy(err, "start a node with \"troupe up\", or set its server with --nats"))
	}
	return conn, nil
}

// ignoreError keeps the NATS client from printing errors: request returns them.
func ignoreError(*nats.Conn, *nats.Subscription, error) {}

// request sends a request to an endpoint of the control service and decodes the answer.
func (r clusterClient) request(ctx context.Context, conn *nats.Conn, endpoint string,
	request, answer proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := protojson.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	reply, err := requestWithRetry(ctx, conn, "troupe.v1."+endpoint, body)
	switch {
	case err != nil && permissionDenied(conn):
		return fmt.Errorf(
			"NATS at %s: %w; grant the user that permission, or set its inbox prefix with --nats-inbox-prefix",
			r.redactedURL(), conn.LastError())
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf(
			"%s is a NATS server without nodes; start one with \"troupe up\", or set another server with --nats",
			r.redactedURL())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf(
			"the nodes at %s do not answer; check whether their machines hang or are overloaded: %w",
			r.redactedURL(), err)
	case err != nil:
		return fmt.Errorf("node at %s: %w", r.redactedURL(), err)
	}
	if refusal := reply.Header.Get(micro.ErrorHeader); refusal != "" {
		return fmt.Errorf("node at %s refused: %s%s", r.redactedURL(), refusal, figures(reply.Data))
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("answer of the node at %s: %w", r.redactedURL(), err)
	}
	return nil
}

// figures returns the sizes and names in the body of a refusal, in parentheses, or nothing.
func figures(body []byte) string {
	refusal := &messages.ErrorResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, refusal); err != nil {
		return "" // of another version; the text is there
	}
	switch m, n := refusal.GetMemory(), refusal.GetNotLoaded(); {
	case m != nil:
		size := func(bytes uint64) string { return units.FormatBytes(int64(bytes)) }
		leave := ""
		for _, h := range m.GetLeave() {
			leave += fmt.Sprintf("; %s would free %s of %s", h.GetCommand(), size(h.GetBytes()), m.GetDevice())
		}
		return fmt.Sprintf(" (%s needs %s; of %s, %s are used, %s reserved, %s evictable%s)", m.GetModel(),
			size(m.GetBytes()), size(m.GetTotal()), size(m.GetUsed()), size(m.GetReserve()), size(m.GetEvictable()),
			leave)
	case n != nil:
		return fmt.Sprintf(" (not loaded: %s on %s)", n.GetModel(), n.GetDevice())
	}
	return ""
}

// requestWithRetry repeats a request until a node answers or ctx ends. NATS delivers each attempt
// to one node, which may hang, so the next attempt can reach another. Only requests without side
// effects may use it.
func requestWithRetry(ctx context.Context, conn *nats.Conn, subject string, body []byte) (*nats.Msg, error) {
	for {
		once, end := context.WithTimeout(ctx, attemptTimeout)
		reply, err := conn.RequestWithContext(once, subject, body)
		end()
		if ctx.Err() != nil || permissionDenied(conn) || !errors.Is(err, context.DeadlineExceeded) {
			return reply, err
		}
	}
}

// permissionDenied reports whether the server denied an operation of this connection.
func permissionDenied(conn *nats.Conn) bool {
	return errors.Is(conn.LastError(), nats.ErrPermissionViolation)
}
