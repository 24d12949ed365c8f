// Package profiles returns the costs of models for tools that compare clusters with the simulator.
package profiles

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"troupe/core/cost"
	"troupe/engine/llama"
	"troupe/internal/costfile"
)

// Run runs a command. Its output is in the error.
func Run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// Calibrate measures the costs of a model on a device with the given troupe binary, and keeps the profile in dir.
func Calibrate(ctx context.Context, binary, model, device, dir string, length time.Duration) (
	p cost.Profile, err error,
) {
	err = Run(ctx, binary, "calibrate", "--model", model, "--devices", device, "--time", length.String(),
		"--out", dir)
	if err != nil {
		return p, err
	}
	return Only(dir)
}

// Only returns the only profile in a folder.
func Only(dir string) (p cost.Profile, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) != 1 {
		return p, fmt.Errorf("%d profiles in %s: %w", len(files), dir, err)
	}
	return costfile.Read(files[0])
}

// Predict returns the costs that simulated devices of a kind, such as "h200", have for the model in a folder.
func Predict(kind, folder string) (p cost.Profile, err error) {
	of, err := costfile.Read(kind)
	if err != nil {
		return p, err
	}
	c, err := llama.ReadConfig(llama.Loader{}.Roots, folder)
	if err != nil {
		return p, err
	}
	return of.Device.Predict(cost.Model{Name: filepath.Base(folder), Layers: c.Layers, Hidden: c.Hidden,
		Intermediate: c.Intermediate, Vocab: c.Vocab, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		Tied: c.TiedEmbeddings, ContextTokens: c.ContextTokens, WeightBits: 16, KVElementBytes: 2}, 1, cost.Peak)
}

// LoadAverage returns the load average of the machine over 1, 5 and 15 minutes.
func LoadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
