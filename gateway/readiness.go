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
	CauseDraining Cause = "draining" // it is being emptied, or is about to end
	CauseStore    Cause = "store"    // the store of deployments is gone or not reached
	CauseQuorum   Cause = "quorum"   // the store has no majority
	CauseDisk     Cause = "disk"     // the data folder cannot be written
	CauseModel    Cause = "model"    // replicas are asked for, and none serves, of any deployment
)

// readiness is the answer to a probe.
type readiness struct {
	Ready   bool              `json:"ready"`
	Causes  []Cause           `json:"causes"`
	Waiting map[string]string `json:"waiting,omitempty"` // deployment -> detail; for admins only
}

// ready answers 200 when balancers should send requests to this node, or, with ?model=NAME, requests
// for that model. Which deployments do not serve, and why, is for admins.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	a := askedBy(r, "ready")
	if r.URL.Query().Has("model") {
		g.modelReady(w, r, a)
		return
	}
	state := readiness{Causes: g.causes()}
	all, err := g.cfg.Directory.Deployments(r.Context())
	if err != nil {
		state.Causes = append(state.Causes, CauseStarting)
		g.cfg.Log.Debug().Err(err).Msg("readiness unknown")
	}
	if noneServing(all) {
		state.Causes = append(state.Causes, CauseModel)
	}
	if a.isAdmin(g.cfg.Keys != nil) {
		state.Waiting = waitingDeployments(all)
	}
	state.Ready = len(state.Causes) == 0
	g.answer(w, a, probeStatus(state.Ready), state)
}

func probeStatus(ready bool) int {
	if ready {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// causes returns why this node takes no requests, whatever they are for.
func (g *Gateway) causes() []Cause {
	causes := []Cause{}
	if g.cfg.Causes != nil {
		causes = append(causes, g.cfg.Causes()...)
	}
	if g.gate.draining() || g.cfg.Draining != nil && g.cfg.Draining() {
		causes = append(causes, CauseDraining)
	}
	return causes
}

// idle reports whether replicas are asked for, and none serves anywhere.
func noneServing(all []*messages.DeploymentStatus) bool {
	wanted := false
	for _, d := range all {
		if serving(d) > 0 {
			return false
		}
		wanted = wanted || d.GetSpec().GetReplicas() > 0
	}
	return wanted
}

// serving returns the number of replicas that serve, on any node.
func serving(d *messages.DeploymentStatus) (n int) {
	for _, r := range d.GetReplicas() {
		if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
			n++
		}
	}
	return n
}

// waitingDeployments returns the deployments with replicas asked for and none that serves, with the reason.
func waitingDeployments(all []*messages.DeploymentStatus) map[string]string {
	names := map[string]string{}
	for _, d := range all {
		if d.GetSpec().GetReplicas() > 0 && serving(d) == 0 {
			names[d.GetSpec().GetName()] = withoutPaths(d.GetDetail())
		}
	}
	return names
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
