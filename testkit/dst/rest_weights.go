package dst

import (
	"maps"
	"slices"

	"troupe/core/residency"
	"troupe/messages"
)

// restlessWeights compares the weights that a device reports with those in its memory, and their
// users with the replicas.
func restlessWeights(
	where string, s *messages.GpuStatus, copies []residency.Copy, leased leases, report func(string, ...any),
) {
	held, revisions := make(map[string]bool), make(map[string]bool)
	for _, c := range copies {
		held[c.Owner()] = true
	}
	for _, w := range s.GetWeights() {
		if !held[w.GetOwner()] {
			report("%s: %s of %s are reported, and not in memory", where, w.GetOwner(), w.GetModel())
		}
		delete(held, w.GetOwner())
		if w.GetLoading() || revisions[w.GetRevisionDigest()] {
			report("%s: %s of %s are there twice, or still loading", where, w.GetOwner(), w.GetModel())
		}
		revisions[w.GetRevisionDigest()] = true
		for _, user := range w.GetUsers() {
			if !leased.has(where + "/" + user) {
				report("%s: %s count %s as a user, which is not there", where, w.GetOwner(), user)
			}
		}
		serves := slices.ContainsFunc(w.GetUsers(), func(user string) bool {
			return leased[where+"/"+user] != messages.Level_LEVEL_STANDBY
		})
		if active := w.GetLevel() == messages.Level_LEVEL_ACTIVE; active != serves {
			report("%s: %s are %s with users %v", where, w.GetOwner(), w.GetLevel(), w.GetUsers())
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(held)) {
		report("%s: %s are in memory, and not reported", where, owner)
	}
	for _, l := range s.GetLeases() {
		if known := slices.ContainsFunc(s.GetWeights(), func(w *messages.GpuWeights) bool {
			return w.GetOwner() == l.GetOwner()
		}); l.GetKind() == "weights" && !known {
			report("%s: pages of %s are leased, and no weights have them", where, l.GetOwner())
		}
	}
}
