package backend

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/quota"
	"troupe/gateway"
	"troupe/gateway/apikey"
	"troupe/messages"
	"troupe/node/query"
)

// KeyControl implements control.KeyBackend.
type KeyControl struct {
	File   *apikey.Keys // nil: requests need no key
	System *actor.ActorSystem
}

// Keys implements control.Backend with the keys of this node's file and their usage in the cluster.
func (k *KeyControl) Keys(ctx context.Context) ([]*messages.KeyStatus, error) {
	if k.File == nil {
		return nil, nil
	}
	used, err := query.Ask[*messages.UsageStatus](ctx, k.System, query.Usage, &messages.GetUsage{})
	if err != nil {
		return nil, err
	}
	byClient := make(map[string]*messages.ClientUsage)
	for _, u := range used.GetClients() {
		byClient[u.GetClient()] = u
	}
	var all []*messages.KeyStatus
	for _, key := range k.File.All() {
		u := byClient[gateway.KeyClientName(key.Name)]
		if u == nil { // the key has not been used yet, so its limits are untouched
			u = &messages.ClientUsage{
				Client:       gateway.KeyClientName(key.Name),
				RequestsLeft: float64(key.Limits.RequestsPerMinute),
				TokensLeft:   float64(key.Limits.TokensPerMinute),
			}
		}
		u.Limits = gateway.LimitsToMessage(quota.Limits(key.Limits))
		all = append(all, &messages.KeyStatus{
			Name: key.Name, Tenant: key.Tenant, Admin: key.Admin, MaxPriority: key.MaxPriority, Weight: key.Weight,
			Usage: u,
		})
	}
	return all, nil
}
