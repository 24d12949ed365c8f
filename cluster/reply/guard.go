package reply

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// At most logBurst lines are logged per logPeriod.
	logBurst  = 5
	logPeriod = 10 * time.Second
	// mostLogged limits the length of a logged subject, in bytes.
	mostLogged = 128
)

// Guard applies a Rule to requests, and counts and logs those that it rejects. It is safe for
// concurrent use.
type Guard struct {
	rule    atomic.Pointer[Rule]
	refused prometheus.Counter
	log     zerolog.Logger
}

// NewGuard returns a guard. With a nil registry it exports no metrics.
func NewGuard(rule Rule, registry prometheus.Registerer, log zerolog.Logger) *Guard {
	g := &Guard{
		log: log.Sample(&zerolog.BurstSampler{Burst: logBurst, Period: logPeriod}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "troupe_nats_replies_refused_total",
			Help: "Requests over NATS that were dropped because their reply subject is not an inbox.",
		}),
	}
	g.Replace(rule)
	if registry != nil {
		registry.MustRegister(g.refused)
	}
	return g
}

// Replace sets the rule for subsequent requests.
func (g *Guard) Replace(rule Rule) { g.rule.Store(&rule) }

// Admit reports whether a request may be handled. A request without a reply subject may, since it
// gets no answer.
func (g *Guard) Admit(subject, reply string) bool {
	if reply == "" || g.rule.Load().Allows(reply) {
		return true
	}
	g.refused.Inc()
	g.log.Warn().Str("subject", cut(subject)).Str("reply", cut(reply)).
		Msg("request dropped: its reply subject is not an inbox; see --nats-inbox-prefixes")
	return false
}

func cut(text string) string { return text[:min(len(text), mostLogged)] }
