package bus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/cluster/security"
)

const (
	joinTimeout = 30 * time.Second // maximum wait for a NATS server to answer
	joinRetry   = 500 * time.Millisecond
)

// dial connects to a NATS server of Config.Join. It retries for joinTimeout, so that nodes can
// start in any order. It does not retry if the server rejects the login.
func dial(ctx context.Context, cfg Config, opts []nats.Option) (*nats.Conn, error) {
	ctx, cancel := cfg.Runtime.WithTimeout(ctx, joinTimeout)
	defer cancel()
	urls := strings.Join(cfg.Join, ",")
	shown := security.WithoutSecrets(urls)
	failed := func(err error) error {
		return fmt.Errorf("NATS at %s: %w; %s", shown, err,
			security.Remedy(err, "is the node that --join names running?"))
	}
	for warned := false; ; warned = true {
		conn, err := nats.Connect(urls, opts...)
		if err == nil {
			return conn, nil
		}
		if security.Refused(err) {
			return nil, failed(err)
		}
		if !warned {
			cfg.Log.Warn().Err(err).Str("servers", shown).Msg("waiting for NATS")
		}
		select {
		case <-ctx.Done():
			return nil, failed(err)
		case <-cfg.Runtime.After(joinRetry):
		}
	}
}
