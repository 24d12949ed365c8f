package link

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// knockEvery is when a connection is asked for once more. The kernel sends a lost request again only after a second, by which time it is
// given up: one that was lost with the last packets of a cut link would keep the link cut for as long again.
const knockEvery = 250 * time.Millisecond

// knock dials, and once more each knockEvery while there is no answer, until ctx ends. The first connection is the one; a refusal is an answer.
func knock(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		conn net.Conn
		err  error
	}
	done := make(chan outcome)
	again := time.NewTicker(knockEvery)
	defer again.Stop()
	for {
		go func() {
			conn, err := dial(ctx)
			select {
			case done <- outcome{conn, err}:
			case <-ctx.Done(): // another one was the first
				if err == nil {
					_ = conn.Close()
				}
			}
		}()
		select {
		case first := <-done:
			return first.conn, first.err
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
}

// dialled are the credentials of connections that each have a configuration of their own.
type dialled struct {
	credentials.TransportCredentials
	config func(net.Conn) *tls.Config
}

func newDialled(config func(net.Conn) *tls.Config) credentials.TransportCredentials {
	return dialled{credentials.NewTLS(config(nil)), config}
}

// ClientHandshake implements credentials.TransportCredentials.
func (d dialled) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(d.config(conn)).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (d dialled) Clone() credentials.TransportCredentials {
	return dialled{d.TransportCredentials.Clone(), d.config}
}
