package gateway

import (
	"net/http"
	"path"
	"regexp"
	"strings"

	"troupe/messages"
)

// Cause is why a node is not ready. The list is fixed: what a probe reads without a key tells no
// names and no sizes.
type Cause string

// Causes.
const (
	CauseStarting Cause = "starting" // it does not know yet what is deployed
	CauseDraining Cause = "draining" // it is to be empty
	CauseStore    Cause = "store"    // the store of deployments is gone or not reached
	CauseQuorum   Cause = "quorum"   // the store has no majority
	CauseDisk     Cause = "disk"     // the data folder cannot be written
	CauseModel    Cause = "model"    // a deployment has no replica that serves
)

// readiness is the answer to a probe.
type readiness struct {
	Ready   bool              `json:"ready"`
	Causes  []Cause           `json:"causes"`
	Waiting map[string]string `json:"waiting,omitempty"` // deployment -> detail; not for everybody
}

// ready answers 200 when every deployment has a replica that serves. Which has none, and why, is
// for admins.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	a := askedBy(r, "ready")
	state, err := g.readiness(r)
	if err != nil {
		g.cfg.Log.Debug().Err(err).Msg("readiness unknown")
	}
	if !a.admin(g.cfg.Keys != nil) {
		state.Waiting = nil
	}
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	g.answer(w, a, status, state)
}

func (g *Gateway) readiness(r *http.Request) (state readiness, err error) {
	state.Causes, state.Waiting = []Cause{}, map[string]string{}
	if g.cfg.Causes != nil {
		state.Causes = append(state.Causes, g.cfg.Causes()...)
	}
	all, err := g.cfg.Directory.Deployments(r.Context())
	if err != nil {
		state.Causes = append(state.Causes, CauseStarting)
	}
	for _, d := range all {
		switch d.GetState() {
		case messages.DeploymentState_DEPLOYMENT_STATE_READY, messages.DeploymentState_DEPLOYMENT_STATE_DEGRADED,
			messages.DeploymentState_DEPLOYMENT_STATE_STOPPED:
		default:
			state.Waiting[d.GetSpec().GetName()] = withoutPaths(d.GetDetail())
		}
	}
	if len(state.Waiting) > 0 {
		state.Causes = append(state.Causes, CauseModel)
	}
	state.Ready = len(state.Causes) == 0
	return state, err
}

var absolutePath = regexp.MustCompile(`(^|[\s"'(=:])/[^\s"',;:()]+`)

// withoutPaths leaves the last element of each absolute path of a text. Paths of this API stay.
func withoutPaths(text string) string {
	return absolutePath.ReplaceAllStringFunc(text, func(found string) string {
		at := strings.IndexByte(found, '/')
		if strings.HasPrefix(found[at:], "/v1/") {
			return found
		}
		return found[:at] + path.Base(found[at:])
	})
}
