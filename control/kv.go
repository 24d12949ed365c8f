package control

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"

	"troupe/core/kv"
	"troupe/messages"
)

const (
	kvOffloadEndpoint = "kv-offload"
	kvRestoreEndpoint = "kv-restore"
	kvNodeEndpoint    = "node-kv"
	// kvTimeout bounds the time to copy blocks on an operator's request.
	kvTimeout = time.Minute
	// maxTenant is the maximum length of a tenant's name in bytes.
	maxTenant = 256
)

func (c *control) kvEndpoints(life context.Context) []Endpoint {
	return []Endpoint{
		serve(c, life, "kv-stats", "kv.stats", "the KV tiers of all nodes and their traffic", c.kvStats),
		serve(c, life, kvOffloadEndpoint, "kv.offload",
			`offload KV blocks from HBM now: {"model": "kjv"}, also "node", "replica"`, c.kvOffload),
		serve(c, life, kvRestoreEndpoint, "kv.restore",
			`restore the blocks of a prefix to HBM: {"model": "kjv", "prompt": "…"}, or "messages", "tokens"; `+
				`also "replica", "tenant"`, c.kvRestore),
		serve(c, life, "kv-flush", "kv.flush",
			`drop KV blocks without readers: {"tier": "dram"}, also "node"`, c.kvFlush),
		serve(c, life, "kv-pin", "kv.pin",
			`keep the blocks of a prefix: {"model": "kjv", "prompt": "…"}, or "messages", "tokens"; `+
				`also "name", "adapter", "tenant"`, c.kvPin),
		serve(c, life, "kv-unpin", "kv.unpin", `remove a pin that kv.stats lists: {"name": "…"}`, c.kvUnpin),
		serve(c, life, kvNodeEndpoint, "node."+c.Node+".kv", "any KV request, for this node only", c.Backend.KV),
	}
}

func (c *control) kvStats(ctx context.Context, req *messages.KvStatsRequest) (*messages.KvStatsResponse, error) {
	members, err := c.view.membersNamed(req.GetNode())
	if err != nil {
		return nil, err
	}
	stats := &messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{Stats: req}}
	res := &messages.KvStatsResponse{
		Nodes: askAll(ctx, c.Runtime, members, func(ctx context.Context, m *messages.Member) *messages.KvNode {
			answer, err := c.view.askKV(ctx, m, stats)
			if err != nil {
				return &messages.KvNode{Node: m.GetName(), Unreachable: unreachableReason(err)}
			}
			return answer.GetNode()
		}),
	}
	for _, p := range c.Backend.Pins() {
		shown := proto.CloneOf(p)
		shown.Tokens = nil
		res.Pins = append(res.Pins, shown)
	}
	return res, nil
}

func (c *control) kvOffload(ctx context.Context, req *messages.KvOffloadRequest) (*messages.KvOffloadResponse, error) {
	offload := &messages.KvNodeRequest{What: &messages.KvNodeRequest_Offload{Offload: req}}
	moved, err := c.view.moveKV(ctx, req.GetNode(), offload)
	if err == nil && len(moved) == 0 {
		err = Refuse(messages.Reason_REASON_NOT_FOUND, "no such replica; see replicas.list")
	}
	return &messages.KvOffloadResponse{Moved: moved}, err
}

func (c *control) kvRestore(ctx context.Context, req *messages.KvRestoreRequest) (*messages.KvRestoreResponse, error) {
	tokens, _, err := c.prefix(ctx, &messages.KvPinRequest{
		Model: req.GetModel(), Adapter: req.GetAdapter(), Tenant: req.GetTenant(),
		Prompt: req.GetPrompt(), Messages: req.GetMessages(), Tokens: req.GetTokens(),
	})
	if err != nil {
		return nil, err
	}
	restore := &messages.KvNodeRequest{What: &messages.KvNodeRequest_Restore{Restore: &messages.KvRestoreRequest{
		Model: req.GetModel(), Replica: req.GetReplica(), Adapter: req.GetAdapter(),
		Tokens: tokens, Tenant: req.GetTenant(),
	}}}
	moved, err := c.view.moveKV(ctx, "", restore)
	if err == nil && len(moved) == 0 {
		err = Refuse(messages.Reason_REASON_NOT_FOUND, "no such replica; see replicas.list")
	}
	return &messages.KvRestoreResponse{Moved: moved}, err
}

func (c *control) kvFlush(ctx context.Context, req *messages.KvFlushRequest) (*messages.KvFlushResponse, error) {
	flush := &messages.KvNodeRequest{What: &messages.KvNodeRequest_Flush{Flush: req}}
	moved, err := c.view.moveKV(ctx, req.GetNode(), flush)
	if err == nil && len(moved) == 0 {
		err = Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no tier %q; use hbm or a tier that kv.stats lists", req.GetTier()))
	}
	return &messages.KvFlushResponse{Moved: moved}, err
}

func (c *control) kvPin(ctx context.Context, req *messages.KvPinRequest) (*messages.KvPinResponse, error) {
	tokens, block, err := c.prefix(ctx, req)
	if err != nil {
		return nil, err
	}
	pin := &messages.PinnedPrefix{
		Name: req.GetName(), Model: req.GetModel(), Adapter: req.GetAdapter(), Tenant: req.GetTenant(),
		Tokens: tokens[:len(tokens)/block*block], Blocks: uint32(len(tokens) / block),
	}
	if pin.GetTenant() == kv.SharedTenant {
		pin.Tenant = ""
	}
	if pin.GetName() == "" {
		pin.Name = pinName(pin)
	}
	switch {
	case !namePattern.MatchString(pin.GetName()):
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			fmt.Sprintf("name %q: use at most 63 letters, digits, '.', '_' and '-', or leave it out", pin.GetName()))
	case pin.GetBlocks() == 0:
		return nil, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			fmt.Sprintf("the prefix has %d tokens, fewer than the %d of a KV block of %s; pin a longer prefix",
				len(tokens), block, req.GetModel()))
	}
	return &messages.KvPinResponse{Pin: pin}, c.Backend.Pin(ctx, pin)
}

// pinName returns a name that depends only on the prefix.
func pinName(p *messages.PinnedPrefix) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s\x00", p.GetModel(), p.GetAdapter())
	if p.GetTenant() != "" {
		fmt.Fprintf(sum, "%s\x00", p.GetTenant())
	}
	for _, t := range p.GetTokens() {
		_ = binary.Write(sum, binary.LittleEndian, t) // a hash never fails
	}
	return fmt.Sprintf("%.40s-%x", p.GetModel(), sum.Sum(nil)[:4])
}

func (c *control) kvUnpin(ctx context.Context, req *messages.KvUnpinRequest) (*messages.KvUnpinResponse, error) {
	if err := requireName(req); err != nil {
		return nil, err
	}
	return &messages.KvUnpinResponse{Name: req.GetName()}, c.Backend.Unpin(ctx, req.GetName())
}

// prefix checks that the request has exactly one of the three forms of a prefix, and a valid tenant
// name. It returns the tokens of the prefix and the number of tokens in a block.
func (c *control) prefix(
	ctx context.Context,
	req *messages.KvPinRequest,
) (tokens []uint32, blockTokens int, err error) {
	forms := 0
	for _, given := range []bool{req.GetPrompt() != "", len(req.GetMessages()) > 0, len(req.GetTokens()) > 0} {
		if given {
			forms++
		}
	}
	if req.GetModel() == "" || forms != 1 {
		return nil, 0, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			`send a model and one of prompt, messages and tokens: `+
				`{"model": "…", "messages": [{"role": "system", "content": "…"}]}`)
	}
	if len(req.GetTenant()) > maxTenant ||
		strings.ContainsFunc(req.GetTenant(), func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, 0, Refuse(messages.Reason_REASON_INVALID_ARGUMENT,
			fmt.Sprintf("tenant: use at most %d printable bytes, as in the file of --api-keys, or leave it out",
				maxTenant))
	}
	return c.Backend.Prefix(ctx, req)
}

// askKV sends a KV request to one node.
func (v *View) askKV(
	ctx context.Context,
	m *messages.Member,
	req *messages.KvNodeRequest,
) (*messages.KvNodeResponse, error) {
	if m.GetName() == v.Node {
		return v.Backend.KV(ctx, req)
	}
	answer := &messages.KvNodeResponse{}
	return answer, v.ask(ctx, m.GetName()+".kv", req, answer)
}

// ping checks that a node answers within nodeTimeout, before it is sent a request that takes long.
func (v *View) ping(ctx context.Context, m *messages.Member) error {
	ctx, cancel := v.runtime().WithTimeout(ctx, nodeTimeout)
	defer cancel()
	_, err := v.askKV(ctx, m, &messages.KvNodeRequest{What: &messages.KvNodeRequest_Stats{}})
	return err
}

// moveKV sends a request that moves blocks to all nodes, or to the named one, and returns the
// results of all.
func (v *View) moveKV(
	ctx context.Context,
	node string,
	req *messages.KvNodeRequest,
) (all []*messages.KvMoved, err error) {
	members, err := v.membersNamed(node)
	if err != nil {
		return nil, err
	}
	move := func(ctx context.Context, m *messages.Member) []*messages.KvMoved {
		err := v.ping(ctx, m)
		var answer *messages.KvNodeResponse
		if err == nil {
			answer, err = v.askKV(ctx, m, req)
		}
		if err != nil {
			return []*messages.KvMoved{{Node: m.GetName(), Unreachable: unreachableReason(err)}}
		}
		return answer.GetMoved()
	}
	for _, moved := range fanOut(ctx, v.runtime(), members, move) {
		all = append(all, moved...)
	}
	return all, nil
}
