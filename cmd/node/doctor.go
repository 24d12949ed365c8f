package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

type doctorCommand struct {
	Config  string `env:"TROUPE_CONFIG" placeholder:"FILE" type:"path" help:"The file that \"troupe up\" is given."`
	JSON    bool   `name:"json" help:"Print JSON."`
	Options `embed:""`
}

func (doctorCommand) Help() string {
	return `It looks at what "troupe up" would use with the same options: who is let in and may change keys, driver and management library, the rights to the devices, links and
errors of every GPU, measured copy bandwidth, limits, ports, NATS, the data folder, and the room for KV tiers. The exit status is 1 where something has to be mended.

A running node need not be stopped for it, though bandwidth is then measured beside its work.

Examples:

  troupe doctor
  troupe doctor --config troupe.yaml
  troupe doctor --json | jq '.[] | select(.state != "ok")'`
}

// state is how grave a finding is.
type state string

const (
	stateOK      state = "ok"
	stateWarning state = "warning" // it works, and could work better
	stateFix     state = "fix"     // it does not work before it is mended
)

// finding is what one check found.
type finding struct {
	Check  string `json:"check"`
	State  state  `json:"state"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"` // where State is not fine
}

// checksTimeout is how long all checks together may take: a GPU that is ill can hang who asks it.
const checksTimeout = time.Minute

// Run prints what was found.
func (d doctorCommand) Run(c console) error {
	s, err := resolveUnchecked(d.Options, d.Config)
	if err != nil {
		return &usageError{err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), checksTimeout)
	defer cancel()
	findings := runChecks(ctx, s)
	if d.JSON {
		out := json.NewEncoder(c.out)
		out.SetIndent("", "  ")
		err = out.Encode(findings)
	} else {
		err = printFindings(c.out, findings)
	}
	if err != nil {
		return err
	}
	return summarize(findings)
}

// runChecks runs all checks, one after the other.
func runChecks(ctx context.Context, s settings) (all []finding) {
	for _, check := range []func(context.Context, settings) []finding{
		checkVersions, checkSetup, checkDevices, checkLimits, checkPorts, checkNATS, checkData, checkStore, checkTiers,
	} {
		all = append(all, check(ctx, s)...)
	}
	return all
}

func printFindings(w io.Writer, findings []finding) (err error) {
	for _, f := range findings {
		if _, err = fmt.Fprintf(w, "%-8s %-12s %s\n", f.State, f.Check, f.Text); f.Remedy != "" {
			_, err = fmt.Fprintf(w, "%-21s → %s\n", "", f.Remedy)
		}
	}
	return err
}

func summarize(findings []finding) error {
	mend := 0
	for _, f := range findings {
		if f.State == stateFix {
			mend++
		}
	}
	switch mend {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("1 thing has to be mended")
	}
	return fmt.Errorf("%d things have to be mended", mend)
}
