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
)

const (
	requestTimeout = 8 * time.Second
	attemptTimeout = 2 * time.Second // longer than a node waits for others
)

// remote is a running cluster, as a command finds it.
type clusterClient struct {
	NATS string `name:"nats" env:"TROUPE_NATS" placeholder:"URL" default:"nats://${nats}" help:"A NATS server that a node is connected to (default: ${default})."`
	natsLogin
}

// shown is the server as messages name it.
func (r clusterClient) redactedURL() string { return security.WithoutSecrets(r.NATS) }

func (r clusterClient) connect(who string) (*nats.Conn, error) {
	as, err := r.options()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(r.NATS, append(as, nats.Name(who), nats.Timeout(requestTimeout), nats.ErrorHandler(ignoreError))...)
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w; %s", r.redactedURL(), err, security.Remedy(err, "start a node with \"troupe up\", or say where one is with --nats"))
	}
	return conn, nil
}

// ignoreError keeps the client from printing errors: ask returns them.
func ignoreError(*nats.Conn, *nats.Subscription, error) {}

// ask sends a request to an endpoint of the control service and reads the answer.
func (r clusterClient) request(ctx context.Context, conn *nats.Conn, endpoint string, request, answer proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := protojson.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	reply, err := requestWithRetry(ctx, conn, "troupe.v1."+endpoint, body)
	switch {
	case err != nil && permissionDenied(conn):
		return fmt.Errorf("NATS at %s: %w; the user needs that permission, or its inbox prefix with --nats-inbox-prefix",
			r.redactedURL(), conn.LastError())
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s is a NATS server, but no node answers there; start one with \"troupe up\", or name another server with --nats", r.redactedURL())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no node at %s answers, though there are some; look whether their machines are overloaded or hang: %w", r.redactedURL(), err)
	case err != nil:
		return fmt.Errorf("node at %s: %w", r.redactedURL(), err)
	}
	if refusal := reply.Header.Get(micro.ErrorHeader); refusal != "" {
		return fmt.Errorf("node at %s refused: %s", r.redactedURL(), refusal)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("answer of the node at %s: %w", r.redactedURL(), err)
	}
	return nil
}

// requestWithRetry asks again until there is an answer: of several nodes NATS picks one, which may hang, and another one the next time. What commands ask
// changes ignoreError.
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

// permissionDenied reports whether the server has refused something that the user of a connection did.
func permissionDenied(conn *nats.Conn) bool {
	return errors.Is(conn.LastError(), nats.ErrPermissionViolation)
}
