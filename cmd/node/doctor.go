package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

type doctorCommand struct {
	Config  string `env:"TROUPE_CONFIG" placeholder:"FILE" type:"path" help:"The YAML file of \"troupe up\"."`
	JSON    bool   `name:"json" help:"Print JSON."`
	Options `embed:""`
}

func (doctorCommand) Help() string {
	return `Checks what "troupe up" would use with the same options: exposed addresses, permissions of key files, the
driver and its management library (NVML), device permissions, the links and errors of every GPU, measured copy
bandwidth, limits, ports, NATS, the data folder, and space for the KV tiers. Each problem is printed with its remedy.
The exit status is 1 if something must be fixed.

It can run beside a running node; bandwidth is then measured under that node's load.

Examples:

  troupe doctor
  troupe doctor --config troupe.yaml
  troupe doctor --json | jq '.[] | select(.state != "ok")'`
}

// state is the severity of a finding.
type state string

const (
	stateOK      state = "ok"
	stateWarning state = "warning" // works, but could work better
	stateFix     state = "fix"     // does not work until it is fixed
)

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	State  state  `json:"state"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"` // empty if State is stateOK
}

func pass(check, text string) finding { return finding{check, stateOK, text, ""} }

func warn(check, text, remedy string) finding { return finding{check, stateWarning, text, remedy} }

func fail(check, text, remedy string) finding { return finding{check, stateFix, text, remedy} }

// checksTimeout bounds all checks together: a faulty GPU can block its callers.
const checksTimeout = time.Minute

// Run prints the findings.
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

// runChecks runs all checks in order.
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

// summarize returns an error if a finding must be fixed.
func summarize(findings []finding) error {
	fixes := 0
	for _, f := range findings {
		if f.State == stateFix {
			fixes++
		}
	}
	switch fixes {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("1 problem must be fixed")
	}
	return fmt.Errorf("%d problems must be fixed", fixes)
}
