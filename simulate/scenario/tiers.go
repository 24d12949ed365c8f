package scenario

import (
	"slices"
	"strings"

	"troupe/core/kv"
	"troupe/simulate"
)

// Tiers are the KV tiers of a node below HBM.
type Tiers struct {
	DRAM      string  `yaml:"dram"`      // empty: no such tier
	NVMe      string  `yaml:"nvme"`      // likewise
	Remote    string  `yaml:"remote"`    // bytes in flight from other nodes, as kv_remote; empty: none
	Policy    string  `yaml:"policy"`    // of eviction, as kv_policy of a node
	Watermark float64 `yaml:"watermark"` // as kv_watermark; 0: the default
	Restore   string  `yaml:"restore"`   // as kv_restore
}

// tiers reads the KV tiers of a node.
func (f *File) tiers(at string, t Tiers) (out simulate.Tiers, err error) {
	at += ".tiers"
	if out.DRAM, err = f.sizeOf(at+".dram", t.DRAM); err != nil {
		return out, err
	}
	if out.NVMe, err = f.sizeOf(at+".nvme", t.NVMe); err != nil {
		return out, err
	}
	if out.Remote, err = f.sizeOf(at+".remote", t.Remote); err != nil {
		return out, err
	}
	if out.Policy = t.Policy; t.Policy != "" && !slices.Contains(kv.PolicyNames(), t.Policy) {
		return out, f.wrong(at+".policy", "is %q; use one of %s", t.Policy, strings.Join(kv.PolicyNames(), ", "))
	}
	if out.Watermark = t.Watermark; !(t.Watermark >= 0 && t.Watermark <= 1) {
		return out, f.wrong(at+".watermark", "is %v; write a share from 0 to 1", t.Watermark)
	}
	if t.Restore != "" {
		if out.Restore, err = kv.ParseRestorePolicy(t.Restore); err != nil {
			return out, f.wrong(at+".restore", "is %q; use one of %v", t.Restore, kv.RestorePolicies())
		}
	}
	return out, nil
}
