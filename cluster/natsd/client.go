package natsd

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"troupe/cluster/reply"
)

// ClientOptions returns the options of a node's connection to NATS. It retries forever, even if the
// server temporarily does not know its user, and reconnects within a fraction of a second. It
// detects a server that does not answer within 3 s. Replies arrive below the inbox prefix of nodes.
func ClientOptions(name string, log zerolog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name), nats.CustomInboxPrefix(reply.NodeInbox),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.Timeout(time.Second), nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil if the connection was closed on purpose
				log.Warn().Err(err).Msg("disconnected from NATS")
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			log.Info().Str("server", c.ConnectedUrlRedacted()).Msg("reconnected to NATS")
		}),
		nats.ErrorHandler(func(c *nats.Conn, s *nats.Subscription, err error) {
			e := log.Warn()
			if errors.Is(err, nats.ErrConsumerNotActive) && !c.IsConnected() {
				e = log.Debug() // a watch got no heartbeat; the disconnection has been logged
			}
			if s != nil {
				e = e.Str("subject", s.Subject)
			}
			e.Err(err).Msg("NATS error")
		}),
	}
}
