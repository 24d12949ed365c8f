package link

import (
	"context"
	"strconv"
	"sync"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	nodeKey          = "troupe-node"   // address of the pinging node
	brokenStreamsKey = "troupe-losses" // number of broken streams to the pinging node
)

// brokenStreams lets a node learn that replies to it were lost although its own connection is
// sound. Each node counts its broken streams per peer and returns the count when that peer pings
// it.
type brokenStreams struct {
	mu     sync.Mutex
	local  map[string]uint64 // address → broken streams to it, never reset
	remote map[string]string // address → last count that the peer reported
}

func newBrokenStreams() brokenStreams {
	return brokenStreams{local: map[string]uint64{}, remote: map[string]string{}}
}

func (l *brokenStreams) add(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.local[address]++
}

func (l *brokenStreams) count(address string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.FormatUint(l.local[address], 10)
}

// observe records the count in a peer's ping answer and reports whether it shows a new loss.
func (l *brokenStreams) observe(address string, answer metadata.MD) bool {
	count := answer.Get(brokenStreamsKey)
	if len(count) != 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.remote[address]
	l.remote[address] = count[0]
	return count[0] != before && (known || count[0] != "0")
}

// ListProcesses is the call that peers use as a ping. It is refused like all calls, with the count
// in the trailer.
func (s service) ListProcesses(
	ctx context.Context,
	_ *remote.ListProcessesRequest,
) (*remote.ListProcessesResponse, error) {
	if from := metadata.ValueFromIncomingContext(ctx, nodeKey); len(from) == 1 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(brokenStreamsKey, s.link.brokenStreams.count(from[0])))
	}
	return nil, status.Error(codes.Unimplemented, "nodes communicate over streams only")
}
