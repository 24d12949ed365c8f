package troupe

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/cuda/host"
	"troupe/messages"
)

// Config describes a node. Whoever fills it has checked it.
type Config struct {
	Name       string // of the node
	DataDir    string
	HTTP       string // "127.0.0.1:8000"; port 0 takes a free one
	NATSListen string // likewise
	Devices    []host.Config
	// Deployments are applied at the start, beside those that are stored.
	Deployments []*messages.DeploymentSpec
	Version     string // semantic
	Log         zerolog.Logger

	// Wrap is given the recipe of every actor before it is used. For tests: crash injection, checks of messages.
	Wrap func(kind string, props *actor.Props) *actor.Props
}

// drainWithin is how long the node waits for requests under way when it is told to stop.
const drainWithin = 8 * time.Second
