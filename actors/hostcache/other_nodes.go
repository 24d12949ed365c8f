package hostcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
	"troupe/modelfile/digest"
)

// Plane is the data plane between nodes.
type Plane interface {
	Expect(chunkBytes int, chunks uint32, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(ticket *messages.BulkTicket)
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
	SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		view func(index uint32, use func(parts ...[]byte) error) error) error
}

// Peer is the host cache of another node.
type Peer struct {
	Node string
	PID  *actor.PID
}

// OtherNodes finds images of weights in the host caches and on the disks of other nodes. It is safe for
// concurrent use, and implements residency.OtherNodes.
type OtherNodes struct {
	System *actor.ActorSystem
	Plane  Plane
	Peers  func() []Peer
	Log    zerolog.Logger

	mu      sync.Mutex
	headers []*engine.Image // found before, the oldest first
}

const (
	findTimeout   = 2 * time.Second
	headerTimeout = 30 * time.Second
	headerChunk   = 1 << 20
	mostHeader    = 512 << 20
	// maxHeaders bounds the images without weights that are kept. Each has a tokenizer.
	maxHeaders = 8
	// maxPeers bounds the nodes that one load may use.
	maxPeers = 3
)

// offer is an image that a node has.
type offer struct {
	Peer
	*messages.ImageFound
}

// source returns the name of the source that has the image.
func (o offer) source() string { return "node " + o.Node + ", " + o.GetKeptIn() }

// find asks all nodes for an image.
func (o *OtherNodes) find(revision string, on cuda.Info) (all []offer) {
	peers := o.Peers()
	answers := make([]*supervise.Answer, len(peers))
	for i, p := range peers {
		answers[i] = supervise.Request(o.System.Root, p.PID,
			&messages.FindImage{RevisionDigest: revision, Weights: uint32(on.Weights)}, findTimeout)
	}
	for i, a := range answers {
		answer, err := a.Result()
		found, ok := answer.(*messages.ImageFound)
		if err == nil && ok && found.GetKeptIn() != "" && found.GetHeaderBytes() <= mostHeader {
			all = append(all, offer{peers[i], found})
		}
	}
	return all[:min(len(all), maxPeers)]
}

// Header implements residency.OtherNodes.
func (o *OtherNodes) Header(revision string, on cuda.Info) *engine.Image {
	if revision == "" {
		return nil
	}
	if i := o.cached(revision, on); i != nil {
		return i
	}
	i, _ := o.header(o.find(revision, on), revision, on)
	return i
}

// Has implements residency.OtherNodes.
func (o *OtherNodes) Has(revision string, on cuda.Info) string {
	if all := o.find(revision, on); len(all) > 0 {
		return all[0].source()
	}
	return ""
}

// Open implements residency.OtherNodes.
func (o *OtherNodes) Open(ctx context.Context, revision string, on cuda.Info) (all []residency.ImageSource) {
	offers := o.find(revision, on)
	image := o.cached(revision, on)
	if image == nil {
		image, offers = o.header(offers, revision, on)
	}
	if image == nil || ctx.Err() != nil {
		return nil
	}
	for _, f := range offers {
		all = append(all, newRemoteImage(o, f, image))
	}
	return all
}

func (o *OtherNodes) cached(revision string, on cuda.Info) *engine.Image {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, i := range o.headers {
		if i.Digests.Revision == revision && i.Fits(on) {
			return i
		}
	}
	return nil
}

// header fetches the header of an image from the first node that delivers it, and returns the offers from
// that one on.
func (o *OtherNodes) header(offers []offer, revision string, on cuda.Info) (*engine.Image, []offer) {
	for n, f := range offers {
		i, err := o.fetchHeader(f, revision, on)
		if err != nil {
			o.Log.Warn().Err(err).Str("node", f.Node).Str("revision", digest.Short(revision)).
				Msg("description of an image not received")
			continue
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.headers = append(o.headers, i)
		o.headers = o.headers[max(0, len(o.headers)-maxHeaders):]
		return i, offers[n:]
	}
	return nil, nil
}

// fetchHeader fetches a header, and checks that its files belong to the revision.
func (o *OtherNodes) fetchHeader(from offer, revision string, on cuda.Info) (*engine.Image, error) {
	b := make([]byte, from.GetHeaderBytes())
	chunks := (len(b) + headerChunk - 1) / headerChunk
	ticket, err := o.Plane.Expect(headerChunk, uint32(chunks), func(index uint32, chunk []byte) error {
		at := int(index) * headerChunk
		if len(chunk) != min(headerChunk, len(b)-at) {
			return errors.New("a chunk of the description has the wrong size")
		}
		copy(b[at:], chunk)
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer, err := supervise.Request(o.System.Root, from.PID, &messages.SendImage{
		RevisionDigest: revision, Weights: uint32(on.Weights), Ticket: ticket,
	}, headerTimeout).Result()
	o.Plane.Drop(ticket)
	if err := sendError(answer, err); err != nil {
		return nil, err
	}
	image, err := residency.DecodeHeader(b)
	if err != nil {
		return nil, err
	}
	weights, err := digest.Parse(image.Digests.Weights)
	if err != nil || image.Digests.Revision != revision || !image.Fits(on) ||
		digest.Revision(weights, digest.SettingsOf(image.Files)).String() != revision {
		return nil, errors.New("config or tokenizer do not belong to the revision")
	}
	return image, nil
}

// sendError returns why SendImage failed.
func sendError(answer any, err error) error {
	switch r := answer.(type) {
	case *messages.SendImageResult:
		if r.GetRefused() != nil {
			return errors.New(r.GetRefused().GetDetail())
		}
		return err
	default:
		return errors.Join(err, fmt.Errorf("unexpected answer %T", answer))
	}
}
