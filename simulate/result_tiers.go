package simulate

// TierUse is what a model's replicas copied to and from the KV tiers of their nodes, in tokens. All is nil without
// tiers.
type TierUse struct {
	Offloaded    *uint64 `json:"offloaded_tokens"`     // copied from HBM to the first tier
	RestoredDRAM *uint64 `json:"restored_dram_tokens"` // instead of being computed
	RestoredNVMe *uint64 `json:"restored_nvme_tokens"` // likewise
	// Restored is the share of the tokens of admitted prompts that were restored.
	Restored *float64 `json:"restored"`
	Restores *uint64  `json:"restores"` // sequences
	// Avoided are sequences whose blocks were found and not restored, since computing them again was faster.
	Avoided *uint64 `json:"restores_avoided"`
}

// tierUse returns the use of the tiers, with the number of tokens of admitted prompts.
func (m *model) tierUse(admitted uint64) (use TierUse) {
	var offloaded, dram, nvme, restores, avoided uint64
	any := false
	for _, r := range m.replicas {
		t := r.tiering
		if t == nil {
			continue
		}
		any = true
		offloaded += t.offloads.Stored()
		dram, nvme = dram+t.restored[dramTier], nvme+t.restored[nvmeTier]
		c := t.restores.Counts()
		restores, avoided = restores+c.Restores, avoided+c.Avoided
	}
	if !any {
		return use
	}
	size := uint64(m.BlockTokens)
	offloaded, dram, nvme = offloaded*size, dram*size, nvme*size
	return TierUse{Offloaded: &offloaded, RestoredDRAM: &dram, RestoredNVMe: &nvme, Restores: &restores,
		Restored: share(int(dram+nvme), int(admitted)), Avoided: &avoided}
}
