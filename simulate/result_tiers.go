package simulate

// TierUse is what a model's replicas copied to and from the KV tiers of their nodes, in tokens. All is nil without
// tiers.
type TierUse struct {
	Offloaded    *uint64 `json:"offloaded_tokens"`     // copied from HBM to the first tier
	RestoredDRAM *uint64 `json:"restored_dram_tokens"` // instead of being computed
	RestoredNVMe *uint64 `json:"restored_nvme_tokens"` // likewise
	// RestoredRemote are tokens that were fetched from other replicas and nodes; nil without remote tiers.
	RestoredRemote *uint64 `json:"restored_remote_tokens"`
	// Restored is the share of the tokens of admitted prompts that were restored.
	Restored *float64 `json:"restored"`
	Restores *uint64  `json:"restores"` // sequences
	// Avoided are sequences whose blocks were found and not restored, since computing them again was faster.
	Avoided *uint64 `json:"restores_avoided"`
}

// tierTotals has what replicas copied, in blocks.
type tierTotals struct {
	any, anyRemote                                       bool // a replica has tiers, or a remote one
	offloaded, dram, nvme, remote, restores, notRestored uint64
}

// addTiers adds what a replica has counted of its tiers.
func (t *totals) addTiers(of *tiering) {
	if of == nil {
		return
	}
	to, c := &t.tiers, of.restores.Counts()
	to.any, to.anyRemote = true, to.anyRemote || of.replica.device.node.remote != nil
	to.offloaded += of.offloads.Stored()
	to.dram, to.nvme = to.dram+of.restored[dramTier], to.nvme+of.restored[nvmeTier]
	to.remote += of.restored[remoteTierName]
	to.restores, to.notRestored = to.restores+c.Restores, to.notRestored+c.Avoided
}

// tierUse returns the use of the tiers, with the number of tokens of admitted prompts.
func (m *model) tierUse(t tierTotals, admitted uint64) (use TierUse) {
	if !t.any {
		return use
	}
	size := uint64(m.BlockTokens)
	t.offloaded, t.dram, t.nvme, t.remote = t.offloaded*size, t.dram*size, t.nvme*size, t.remote*size
	use = TierUse{Offloaded: &t.offloaded, RestoredDRAM: &t.dram, RestoredNVMe: &t.nvme, Restores: &t.restores,
		Restored: share(int(t.dram+t.nvme+t.remote), int(admitted)), Avoided: &t.notRestored}
	if t.anyRemote {
		use.RestoredRemote = &t.remote
	}
	return use
}
