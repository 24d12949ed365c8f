package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/supervise"
	"troupe/cluster/bucket"
	"troupe/messages"
)

// Bucket is the name of the KV bucket.
const Bucket = "troupe-members"

const (
	republishPrefix = "troupe.members" // prefix of the subjects to which JetStream republishes changes
	operationHeader = "KV-Operation"
	operationDelete = "DEL"
	deletedHeader   = "Troupe-Deleted" // when a member was deleted
	// termGap bounds the number of changes of a deleted bucket that a node may have missed.
	termGap = 1 << 20
)

// errConflict reports that the key is not at the expected revision.
var errConflict = errors.New("key was changed concurrently")

// bucketClient reads and writes the bucket.
type bucketClient struct {
	bucket.Client
	rt  supervise.Runtime
	log zerolog.Logger

	mu      sync.Mutex
	decoded map[string]decoded // by key
}

// decoded is the last valid value of a key that was decoded. Most changes renew a record and
// leave it as it is.
type decoded struct {
	value []byte
	entry entry
}

func openBucket(
	ctx context.Context,
	c bucket.Client,
	seen uint64,
	rt supervise.Runtime,
	log zerolog.Logger,
) (*bucketClient, error) {
	_, err := bucket.Open(ctx, c, bucket.Config{
		Name: Bucket, Description: "Members of a Troupe cluster, and their leases",
		Republish: republishPrefix,
		// Terms are revisions. Those of a new bucket must be above all that nodes have seen.
		FirstRevision: max(uint64(rt.Now().UnixMicro()), seen+termGap), Log: log, Runtime: rt,
	})
	return newBucketClient(c, rt, log), err
}

func newBucketClient(c bucket.Client, rt supervise.Runtime, log zerolog.Logger) *bucketClient {
	return &bucketClient{Client: c, rt: rt, log: log, decoded: make(map[string]decoded)}
}

// put writes a key over a revision and returns the new revision. It returns errConflict if the key
// has another revision.
func (c *bucketClient) put(ctx context.Context, key string, value proto.Message, over uint64) (uint64, error) {
	data, err := strict.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("key %s: %w", key, err)
	}
	return c.write(ctx, key, bucket.Value{Data: data}, over)
}

// remove deletes a key that is at a revision. It returns errConflict if the key has another
// revision.
func (c *bucketClient) remove(ctx context.Context, key string, at uint64) (uint64, error) {
	return c.write(ctx, key, deletion(), at)
}

// removeMember deletes a member that is at a revision. The deletion has its record and the time, for nodes
// that join later.
func (c *bucketClient) removeMember(ctx context.Context, member *messages.Member, at uint64) (uint64, error) {
	value, key := deletion(), memberKey(member.GetName())
	value.Header.Set(deletedHeader, c.rt.Now().Format(time.RFC3339Nano))
	var err error
	if value.Data, err = strict.Marshal(member); err != nil {
		return 0, fmt.Errorf("key %s: %w", key, err)
	}
	return c.write(ctx, key, value, at)
}

// deletion returns the value that deletes a key.
func deletion() bucket.Value {
	return bucket.Value{Header: nats.Header{operationHeader: {operationDelete}}}
}

func (c *bucketClient) write(ctx context.Context, key string, v bucket.Value, over uint64) (uint64, error) {
	revision, err := c.Write(ctx, Bucket, key, v, over)
	if bucket.IsConflict(err) {
		return 0, errConflict
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", bucket.Subject(Bucket, key), err)
	}
	return revision, nil
}

// get reads a key. The revision is 0 if the key does not exist.
func (c *bucketClient) get(ctx context.Context, key string) (entry, error) {
	msg, err := c.Last(ctx, Bucket, key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return entry{key: key}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("key %s: %w", key, err)
	}
	return c.decodeEntry(key, msg.Sequence, msg.Header, msg.Data), nil
}

// decodeEntry decodes a revision. It logs a value that cannot be decoded and returns it as deleted.
func (c *bucketClient) decodeEntry(key string, revision uint64, header nats.Header, data []byte) entry {
	if header.Get(operationHeader) != "" {
		e := entry{key: key, revision: revision, firstSeen: c.rt.Now()}
		deleted, err := time.Parse(time.RFC3339Nano, header.Get(deletedHeader))
		if last, bad := decode(key, revision, data, e.firstSeen); err == nil && bad == nil {
			e.last, e.deleted = last.member, deleted
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.decoded, key)
		return e
	}
	c.mu.Lock()
	last, known := c.decoded[key]
	c.mu.Unlock()
	if known && bytes.Equal(last.value, data) {
		e := last.entry
		e.revision, e.firstSeen = revision, c.rt.Now()
		return e
	}
	e, err := decode(key, revision, data, c.rt.Now())
	if err != nil {
		c.log.Error().Err(err).Msg("invalid record ignored")
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decoded[key] = decoded{bytes.Clone(data), e}
	return e
}

// decodeChange decodes a republished change. It also returns the previous revision of the key.
func (c *bucketClient) decodeChange(msg *nats.Msg) (e entry, previous uint64) {
	revision, _ := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	previous, _ = strconv.ParseUint(msg.Header.Get("Nats-Last-Sequence"), 10, 64)
	return c.decodeEntry(strings.TrimPrefix(msg.Subject, republishPrefix+"."), revision, msg.Header, msg.Data), previous
}

// snapshot reads all keys, and the last revision of the bucket when they were listed. It reads
// leases before members, so that the holder of a lease is in the snapshot if it is live.
func (c *bucketClient) snapshot(ctx context.Context) (all []entry, upTo uint64, err error) {
	keys, upTo, err := c.Keys(ctx, Bucket)
	if err != nil {
		return nil, 0, fmt.Errorf("KV bucket %s: %w", Bucket, err)
	}
	var leases, members []string
	for _, key := range keys {
		if strings.HasPrefix(key, leasePrefix) {
			leases = append(leases, key)
		} else if strings.HasPrefix(key, memberPrefix) {
			members = append(members, key)
		}
	}
	for _, key := range slices.Concat(leases, members) {
		e, err := c.get(ctx, key)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, e)
	}
	return all, upTo, nil
}
