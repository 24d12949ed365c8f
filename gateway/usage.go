package gateway

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/quota"
	"troupe/messages"
)

// UsageConfig configures the usage actor. Restarts of the actor share it.
type UsageConfig struct {
	Node   string // name of this node
	Quotas *Quotas
	// Members returns the members of the cluster. Later changes arrive as MembersChanged.
	Members func() *messages.MembersChanged
	Peer    func(m *messages.Member) *actor.PID // returns the usage actor of a member
}

// UsageProps returns the props of the usage actor.
func UsageProps(cfg UsageConfig) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &usageActor{UsageConfig: cfg, incarnation: incarnation}
	})
}

// announceInterval is the time between two reports to the other gateways.
const announceInterval = time.Second

type usageActor struct {
	UsageConfig
	incarnation uint64
	peers       map[string]*actor.PID // by node
}

// announce makes the actor send its next report. Messages of an earlier incarnation are ignored.
type announce struct{ incarnation uint64 }

func (u *usageActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		u.onMembers(u.Members())
		u.onAnnounce(ctx, &announce{u.incarnation})
	case *announce:
		u.onAnnounce(ctx, msg)
	case *messages.MembersChanged:
		u.onMembers(msg)
	case *messages.UsageAnnounced:
		u.onReport(msg)
	case *messages.GetUsage:
		ctx.Respond(&messages.UsageStatus{Clients: u.Quotas.clusterUsage()})
	default:
		supervise.Unknown(ctx, "usage")
	}
}

func (u *usageActor) onMembers(msg *messages.MembersChanged) {
	u.peers = make(map[string]*actor.PID)
	for _, m := range msg.GetMembers() {
		if m.GetName() != u.Node {
			u.peers[m.GetName()] = u.Peer(m)
		}
	}
	u.Quotas.removePeers(func(node string) bool { return u.peers[node] != nil })
}

func (u *usageActor) onAnnounce(ctx actor.Context, msg *announce) {
	if msg.incarnation != u.incarnation {
		return
	}
	supervise.After(ctx, announceInterval, msg)
	if len(u.peers) == 0 {
		return
	}
	report := &messages.UsageAnnounced{
		Node:        u.Node,
		Incarnation: u.Quotas.incarnation,
		Clients:     toMessages(u.Quotas.usage()),
	}
	for _, node := range slices.Sorted(maps.Keys(u.peers)) {
		ctx.Send(u.peers[node], report)
	}
}

// onReport applies the report of another gateway. It ignores nodes that are not members.
func (u *usageActor) onReport(msg *messages.UsageAnnounced) {
	if u.peers[msg.GetNode()] != nil {
		u.Quotas.applyReport(msg)
	}
}

// clusterUsage returns the usage of API keys in the cluster.
func (q *Quotas) clusterUsage() []*messages.ClientUsage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return toMessages(q.ledger.ClusterUsage(q.rt.Now()))
}

func (q *Quotas) removePeers(lives func(node string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ledger.RemovePeers(lives)
}

func (q *Quotas) applyReport(msg *messages.UsageAnnounced) {
	all := make([]quota.Usage, len(msg.GetClients()))
	for i, c := range msg.GetClients() {
		all[i] = fromMessage(c)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ledger.ApplyReport(q.rt.Now(), msg.GetNode(), msg.GetIncarnation(), all)
}

func toMessages(all []quota.Usage) []*messages.ClientUsage {
	out := make([]*messages.ClientUsage, len(all))
	for i, u := range all {
		out[i] = &messages.ClientUsage{
			Client: u.Client, Limits: LimitsToMessage(u.Limits), RequestsInFlight: u.Requests, TokensInFlight: u.Tokens,
			RequestsSpent: u.SpentRequests, TokensSpent: u.SpentTokens,
			RequestsLeft: u.MinuteRequests, TokensLeft: u.MinuteTokens,
			Requests: u.Totals.Requests, Refused: u.Totals.Refused,
			PromptTokens: u.Totals.PromptTokens, OutputTokens: u.Totals.OutputTokens,
		}
	}
	return out
}

// LimitsToMessage converts limits to a message.
func LimitsToMessage(l quota.Limits) *messages.ClientLimits {
	return &messages.ClientLimits{
		Requests:          l.Requests,
		Tokens:            l.Tokens,
		RequestsPerMinute: l.RequestsPerMinute,
		TokensPerMinute:   l.TokensPerMinute,
	}
}

func fromMessage(c *messages.ClientUsage) quota.Usage {
	l := c.GetLimits()
	return quota.Usage{
		Client: c.GetClient(),
		Limits: quota.Limits{
			Requests:          l.GetRequests(),
			Tokens:            l.GetTokens(),
			RequestsPerMinute: l.GetRequestsPerMinute(),
			TokensPerMinute:   l.GetTokensPerMinute(),
		},
		Requests: c.GetRequestsInFlight(), Tokens: c.GetTokensInFlight(),
		SpentRequests: c.GetRequestsSpent(), SpentTokens: c.GetTokensSpent(),
		MinuteRequests: c.GetRequestsLeft(), MinuteTokens: c.GetTokensLeft(),
		Totals: quota.Totals{
			Requests:     c.GetRequests(),
			Refused:      c.GetRefused(),
			PromptTokens: c.GetPromptTokens(),
			OutputTokens: c.GetOutputTokens(),
		},
	}
}

// KeyClientName returns the quota client's name of an API key.
func KeyClientName(key string) string { return keyPrefix + key }
