package replica_test

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica"
	"troupe/actors/model/replica/copier"
	"troupe/engine/residency"
)

// copierProps returns the props of a replica's copier.
func (c *cluster) copierProps(tiers replica.Tiers, of replica.CopierSpec, holder *residency.Store) *actor.Props {
	cfg := copier.Config{Incarnation: of.Incarnation, Remote: tiers.Remote, Bulk: c.bulk, Gate: of.Gate,
		OnCopied:   tiers.OnCopied,
		OpenBlocks: func() (copier.Blocks, error) { return holder.OpenBlocks(of.Lease) }}
	for _, t := range tiers.Lower {
		cfg.Tiers = append(cfg.Tiers, copier.Tier{Name: t.Name, Actor: t.Actor, Store: t.Store})
	}
	return copier.Props(cfg)
}
