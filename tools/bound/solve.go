package bound

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// gap is the relative gap to the optimum at which a solution counts as optimal.
	gap = 1e-6
	// limit is the number of seconds for a program.
	limit = 60
	// steps is the number of multiples that are tried at once.
	steps = 8
	// precision is the relative error of a multiple.
	precision = 1e-3
)

// ErrNoSolver is the error if the solver is not installed.
var ErrNoSolver = errors.New("HiGHS is not installed; run npm ci in tools/bound (needs Node.js 18)")

// Solver solves programs.
type Solver struct{ folder string }

// NewSolver returns the solver that is installed in a folder, or ErrNoSolver.
func NewSolver(folder string) (*Solver, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return nil, ErrNoSolver
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "highs")); err != nil {
		return nil, ErrNoSolver
	}
	return &Solver{folder}, nil
}

// solved is the result of a program.
type solved struct {
	Status    string   `json:"status"`
	Objective *float64 `json:"objective"`
}

// solve solves programs.
func (s *Solver) solve(problems []string) (results []solved, err error) {
	in, err := json.Marshal(map[string]any{"problems": problems, "gap": gap, "seconds": limit})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", "solve.mjs")
	var out, log bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.folder, bytes.NewReader(in), &out, &log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("solve %d programs: %w\n%s", len(problems), err, log.Bytes())
	}
	if err := json.Unmarshal(out.Bytes(), &results); err != nil || len(results) != len(problems) {
		return nil, fmt.Errorf("%d results of %d programs: %w", len(results), len(problems), err)
	}
	for _, r := range results {
		if r.Status != "Infeasible" && (r.Status != "Optimal" || r.Objective == nil) {
			return nil, fmt.Errorf("a program has the status %q after at most %d s", r.Status, limit)
		}
	}
	return results, nil
}

// DeviceHours returns the least device-hours of each day. A day whose demand the pool cannot carry is an error.
func (s *Solver) DeviceHours(days ...Day) ([]float64, error) {
	problems := make([]string, len(days))
	for i, d := range days {
		problems[i] = d.program(1)
	}
	results, err := s.solve(problems)
	if err != nil {
		return nil, err
	}
	hours := make([]float64, len(days))
	for i, r := range results {
		if r.Objective == nil || r.Status != "Optimal" {
			return nil, fmt.Errorf("%d devices do not carry the demand of day %d", days[i].Devices, i)
		}
		hours[i] = *r.Objective * (1 - gap)
	}
	return hours, nil
}

// Multiple returns the largest multiple of the demand of a day that the pool carries.
func (s *Solver) Multiple(d Day) (float64, error) {
	low, high := 0.0, 2.0*float64(d.Devices)
	for high-low > precision*high {
		var problems []string
		at := func(i int) float64 { return low + (high-low)*float64(i)/(steps+1) }
		for i := range steps {
			problems = append(problems, d.program(at(i+1)))
		}
		results, err := s.solve(problems)
		if err != nil {
			return 0, err
		}
		carried := 0
		for carried < steps && results[carried].Status == "Optimal" {
			carried++
		}
		low, high = at(carried), at(carried+1)
	}
	return high, nil
}
