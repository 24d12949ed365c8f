package supervise

import (
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/extensions"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// unknownLogInterval is the time between log lines for the same kind of actor and message.
const unknownLogInterval = time.Minute

var unknownID = extensions.NextExtensionID()

// unknownCounter is an extension of an actor system that counts messages that actors do not know.
type unknownCounter struct {
	total  *prometheus.CounterVec
	log    zerolog.Logger
	mu     sync.Mutex
	logged map[[2]string]time.Time // actor kind and message type -> last log line
}

// ExtensionID implements extensions.Extension.
func (*unknownCounter) ExtensionID() extensions.ExtensionID { return unknownID }

// CountUnknown registers a counter and a log for the messages with which actors of the system call
// Unknown. It must be called before the first actor is spawned.
func CountUnknown(sys *actor.ActorSystem, r prometheus.Registerer, log zerolog.Logger) {
	c := &unknownCounter{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_actor_unknown_messages_total",
			Help: "Messages that an actor received and does not know, by kind of actor and type of message.",
		}, []string{"actor", "message"}),
		log: log, logged: make(map[[2]string]time.Time),
	}
	r.MustRegister(c.total)
	sys.Extensions.Register(c)
}

// Unknown counts and logs a message that an actor's Receive does not list. It logs one line a
// minute for each kind of actor and message. The notices of protoactor itself do not count. Without
// CountUnknown it does nothing.
func Unknown(ctx actor.Context, kind string) {
	msg := ctx.Message()
	switch msg.(type) {
	case actor.AutoReceiveMessage, actor.SystemMessage:
		return
	}
	name := fmt.Sprintf("%T", msg)
	c, ok := ctx.ActorSystem().Extensions.Get(unknownID).(*unknownCounter)
	if !ok {
		return
	}
	c.total.WithLabelValues(kind, name).Inc()
	if c.mayLog(kind, name, Now(ctx)) {
		c.log.Warn().Str("actor", kind).Str("message", name).Msg("unknown message ignored")
	}
}

// mayLog reports whether the log line is due.
func (c *unknownCounter) mayLog(kind, message string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{kind, message}
	if last, ok := c.logged[key]; ok && now.Sub(last) < unknownLogInterval {
		return false
	}
	c.logged[key] = now
	return true
}
