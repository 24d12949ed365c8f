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
	nodeKey   = "troupe-node"   // who asks
	lossesKey = "troupe-losses" // how many streams to the asker have broken
)

// losses lets a node learn of answers that were lost on the way to it, though its own connection, on which it asked, is
// sound: each node counts the streams to a peer that broke, and says how many when that peer asks whether it lives.
type losses struct {
	mu     sync.Mutex
	ours   map[string]uint64 // address → streams to it that have broken; one number for every node that ever was
	theirs map[string]string // address → how many streams to us it has told of
}

func newLosses() losses {
	return losses{ours: map[string]uint64{}, theirs: map[string]string{}}
}

func (l *losses) add(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ours[address]++
}

func (l *losses) to(address string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.FormatUint(l.ours[address], 10)
}

// told reports whether a peer's answer tells of a loss that we did not know of.
func (l *losses) told(address string, answer metadata.MD) bool {
	count := answer.Get(lossesKey)
	if len(count) != 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.theirs[address]
	l.theirs[address] = count[0]
	return count[0] != before && (known || count[0] != "0")
}

// ListProcesses is what peers call to see whether we live. It is refused, as all calls are.
func (s service) ListProcesses(ctx context.Context, _ *remote.ListProcessesRequest) (*remote.ListProcessesResponse, error) {
	if from := metadata.ValueFromIncomingContext(ctx, nodeKey); len(from) == 1 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(lossesKey, s.link.losses.to(from[0])))
	}
	return nil, status.Error(codes.Unimplemented, "nodes talk by streams")
}
