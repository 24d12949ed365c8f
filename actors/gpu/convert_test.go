package gpu

import (
	"errors"
	"fmt"
	"testing"

	core "troupe/core/device"
	"troupe/core/hbm"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

// TestFailureOf checks the causes of failed jobs, and that a mismatch carries the revision found.
func TestFailureOf(t *testing.T) {
	for _, tc := range []struct {
		err   error
		cause core.Cause
		found string
	}{
		{errors.New("truncated"), core.Other, ""},
		{fmt.Errorf("load: %w", cuda.ErrOutOfMemory), core.OutOfMemory, ""},
		{fmt.Errorf("load: %w", cuda.ErrDeviceLost), core.DeviceLost, ""},
		{fmt.Errorf("resize: %w", errors.ErrUnsupported), core.Unsupported, ""},
		{
			fmt.Errorf("load: %w", &engine.RevisionMismatch{Found: engine.Digests{Revision: "r-2"}}),
			core.RevisionDiffers, "r-2",
		},
	} {
		if f := failureOf(tc.err); f.Cause != tc.cause || f.Found != tc.found || f.Detail != tc.err.Error() {
			t.Errorf("%v: %+v", tc.err, f)
		}
	}
}

// TestReasonsAreComplete checks that each reason for a refusal has one in messages.
func TestReasonsAreComplete(t *testing.T) {
	for r := core.NotReady; r <= core.NotSupported; r++ {
		if reasons[r] == messages.Reason_REASON_UNSPECIFIED {
			t.Errorf("%s has no reason in messages", r)
		}
	}
}

// TestSizeOf checks that the size of a model plus its memory for adapters, which is counted
// separately, equals the need that the engine reports.
func TestSizeOf(t *testing.T) {
	info := engine.ModelInfo{
		ContextTokens: 64, WeightBytes: 3 << 20, KVTokenBytes: 1 << 10, RowBytes: 5, LogitsBytes: 7, RankBytes: 1 << 18,
		GraphOps: 9, LoRAGraphOps: 17, GraphOpBytes: 32 << 10,
	}
	spec := loadSpecOf(specOf(&messages.LoadModel{
		Lease: "m-0", Path: "m", BlockTokens: 16, StepTokens: 8, MaxSequences: 2, MaxAdapters: 3, MaxAdapterRank: 16,
		AdapterPages: 5,
	}))
	want := info.Need(spec)
	for name, s := range map[string]core.Size{
		"to be loaded": sizeOf(info, spec),
		"loaded":       modelOf(residency.Loaded{LoadSpec: spec, Info: info}).Size,
	} {
		got := s.Need
		if got.Fixed += 5 * hbm.PageBytes; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if s.Weights != info.WeightBytes || s.Workspace != info.WorkspaceBytes(spec.Limits) ||
			s.Graphs != info.GraphMemory(spec.Limits) || s.Graphs == 0 || s.BlockBytes != 16<<10 ||
			s.MaxBlocks != 8 || s.MaxAdapters != 3 || s.PagesPerAdapter != info.AdapterPages(16) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
