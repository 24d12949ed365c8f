package dst

import (
	"slices"

	"troupe/core/hbm"
	"troupe/messages"
)

// restlessAdapters checks a replica's adapters: none is in use, all are of the stored revision, and
// each page is free or holds one of them.
func (c *cluster) restlessAdapters(r placed, s *messages.ReplicaStatus, report func(string, ...any)) {
	where := r.name + " on " + r.node.cfg.Name
	used := 0
	for _, a := range s.GetAdapters() {
		stored := c.operator.adapter(s.GetModel(), a.GetName())
		if a.GetSequences() > 0 || a.GetPinned() || a.GetState() != messages.AdapterState_ADAPTER_STATE_IDLE &&
			a.GetState() != messages.AdapterState_ADAPTER_STATE_ABSENT {
			report("%s: adapter %s@%d is %s, with %d sequences, pinned: %v", where, a.GetName(), a.GetRevision(),
				a.GetState(), a.GetSequences(), a.GetPinned())
		}
		if a.GetRevision() != stored.GetRevision() {
			report("%s has adapter %s@%d, revision %d is stored", where, a.GetName(), a.GetRevision(),
				stored.GetRevision())
			continue
		}
		if a.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
			used += layoutOf(stored.GetPath()).Pages()
		}
	}
	if n := s.GetAdapterCounts(); int(n.GetPages()) != int(n.GetPagesFree())+used {
		report("%s: %d of %d adapter pages are free, and %d are used", where, n.GetPagesFree(), n.GetPages(), used)
	}
	if n := s.GetAdaptersAwaited(); n > 0 {
		report("%s: %d sequences or pins wait for an adapter", where, n)
	}
}

// blockCopiers is the maximum number of actors of a replica that copy its blocks, each of which has
// host memory for a block.
const blockCopiers = 4

// restlessMemory checks the memory of adapters of a device: each page holds one adapter, and none that was
// given back is left. The allocated host memory holds images of the host cache, or a block of an actor that
// copies blocks.
func (c *cluster) restlessMemory(n *Node, i int, where string, report func(string, ...any)) {
	models := n.gpus.Models()[i]
	for _, l := range models.Held() {
		cache, err := models.Adapters(l.Handle)
		if err != nil {
			continue // none was needed
		}
		pages := cache.Pages()
		if len(pages) != l.AdapterPages || len(pages) < l.AdapterMin {
			report("%s: %s uses %d of %d adapter pages, at least %d", where, l.Lease, len(pages), l.AdapterPages,
				l.AdapterMin)
		}
		holder := make(map[uint32]string)
		for _, a := range cache.Held() {
			for _, page := range a.Pages {
				if holder[page] != "" {
					report("%s: page %d of %s belongs to adapters %s and %s", where, page, l.Lease, holder[page],
						a.Key)
				}
				if holder[page] = a.Key; !slices.Contains(pages, page) {
					report("%s: page %d of adapter %s is not a page of %s", where, page, a.Key, l.Lease)
				}
			}
			if int64(len(a.Pages))*hbm.PageBytes < a.File.Layout.Bytes() {
				report("%s: adapter %s of %s has %d pages", where, a.Key, l.Lease, len(a.Pages))
			}
		}
	}
	used := n.devices[i].hostInUse() - n.devices[i].imageBytes()
	if most := int64(len(models.Held())) * blockCopiers * blockBytes; used > most || used%blockBytes > 0 {
		report("%s: %d bytes of host memory are allocated besides images", where, used)
	}
}
