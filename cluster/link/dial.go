package link

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"troupe/actors/supervise"
)

// redialInterval is the time after which dialRetry starts another dial. The kernel retransmits a
// lost SYN only after a second, and by then the dial has timed out. A SYN that was lost with the
// last packets of a cut link would keep the link cut for another timeout.
const redialInterval = 250 * time.Millisecond

// dialRetry dials, and starts another dial every redialInterval while none has finished, until ctx
// ends. It returns the result of the first dial that finishes, even a refusal.
func dialRetry(
	ctx context.Context, rt supervise.Runtime, dial func(context.Context) (net.Conn, error),
) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		conn net.Conn
		err  error
	}
	done := make(chan outcome)
	for {
		rt.Go(func() {
			conn, err := dial(ctx)
			select {
			case done <- outcome{conn, err}:
			case <-ctx.Done(): // another dial finished first
				if err == nil {
					_ = conn.Close()
				}
			}
		})
		select {
		case first := <-done:
			return first.conn, first.err
		case <-rt.After(redialInterval):
		case <-ctx.Done():
			return nil, fmt.Errorf("no answer: %w", ctx.Err())
		}
	}
}

// perConnTLS are TLS credentials with a separate configuration for each connection.
type perConnTLS struct {
	credentials.TransportCredentials
	config func(net.Conn) *tls.Config
}

func newPerConnTLS(config func(net.Conn) *tls.Config) credentials.TransportCredentials {
	return perConnTLS{credentials.NewTLS(config(nil)), config}
}

// ClientHandshake implements credentials.TransportCredentials.
func (d perConnTLS) ClientHandshake(
	ctx context.Context,
	authority string,
	conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(d.config(conn)).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (d perConnTLS) Clone() credentials.TransportCredentials {
	return perConnTLS{d.TransportCredentials.Clone(), d.config}
}
