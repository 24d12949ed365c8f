package migration

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/backend"
	"troupe/core/replica"
	"troupe/messages"
)

// recompute carries out a command to migrate sequences where KV blocks cannot be moved. If the replica leaves,
// its sequences are interrupted, so that their sessions continue them elsewhere and all of their tokens are
// computed again. They stay if the backend cannot continue a sequence that has output, or if the replica does not
// leave: another one would only compute again what is here.
func (m *Migrations) recompute(ctx actor.Context, msg *messages.MigrateSequences) {
	ids := msg.GetRequestIds()
	if len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(m.Sequences))
	}
	detail, leaves := backend.Missing(m.Kind, backend.KVMigration), m.Machine.Leaving()
	switch {
	case !m.Can.Has(backend.Resume):
		detail += ", and " + backend.Missing(m.Kind, backend.Resume) + "; it finishes here"
	case leaves:
		detail += "; it is computed again elsewhere"
	default:
		detail += "; it stays, since the replica does"
	}
	result := &messages.MigrateSequencesResult{RequestId: msg.GetRequestId()}
	for _, id := range ids {
		report := &messages.SequenceMigration{RequestId: id, Detail: detail}
		if !m.Machine.Has(id) {
			report.Detail = "it is not on this replica"
		}
		result.Sequences = append(result.Sequences, report)
	}
	ctx.Respond(result)
	if leaves && m.Can.Has(backend.Resume) {
		m.host.Perform(ctx, m.Machine.Requeue(ids, replica.Refusal{
			Reason: replica.IsDraining, Detail: detail, RetryAfter: replica.RetryAfter,
		}))
	}
}
