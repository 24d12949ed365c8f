package gateway

import (
	"net/http"
	"path"
	"regexp"
	"strings"

	"troupe/messages"
)

// Cause is a reason why a node is not ready. The values are fixed, so that a probe without a key
// learns no names or sizes.
type Cause string

const (
	CauseStarting Cause = "starting" // the deployments are not known yet
	CauseDraining Cause = "draining" // an operator drains the node, or it shuts down
	CauseStore    Cause = "store"    // the store of deployments is lost or unreachable
	CauseQuorum   Cause = "quorum"   // the store has no quorum
	CauseDisk     Cause = "disk"     // the data folder is not writable
	CauseModel    Cause = "model"    // replicas are wanted, but none serves for any deployment
)

// readiness is the response to a probe.
type readiness struct {
	Ready   bool              `json:"ready"`
	Causes  []Cause           `json:"causes"`
	Waiting map[string]string `json:"waiting,omitempty"` // deployment -> detail; admins only
}

// ready responds with 200 when load balancers should send requests to this node. With ?model=NAME,
// it considers only requests to that model. Only admins see which deployments do not serve, and
// why.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	info := newRequestInfo(r, "ready")
	if r.URL.Query().Has("model") {
		g.modelReady(w, r, info)
		return
	}
	state := readiness{Causes: g.causes()}
	all, err := g.deployments(r.Context())
	if err != nil {
		state.Causes = append(state.Causes, CauseStarting)
		g.cfg.Log.Debug().Err(err).Msg("reading deployments for a probe failed")
	}
	if noneServing(all) {
		state.Causes = append(state.Causes, CauseModel)
	}
	if info.isAdmin(g.cfg.Keys != nil) {
		state.Waiting = waitingDeployments(all)
	}
	state.Ready = len(state.Causes) == 0
	g.respondJSON(w, info, probeStatus(state.Ready), state)
}

func probeStatus(ready bool) int {
	if ready {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// causes returns why this node accepts no requests for any model.
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

// noneServing reports whether replicas are wanted but none serves for any deployment.
func noneServing(all []*messages.DeploymentStatus) bool {
	wanted := false
	for _, d := range all {
		if serving(d) > 0 {
			return false
		}
		wanted = wanted || wantsServing(d)
	}
	return wanted
}

// wantsServing reports whether some replica of a deployment is to serve.
func wantsServing(d *messages.DeploymentStatus) bool {
	return d.GetSpec().Wanted() > 0 && d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_STANDBY &&
		d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_PARKED
}

// serving returns the number of serving replicas in the cluster.
func serving(d *messages.DeploymentStatus) (n int) {
	for _, r := range d.GetReplicas() {
		if r.GetState() == messages.ReplicaState_REPLICA_STATE_SERVING {
			n++
		}
	}
	return n
}

// waitingDeployments returns the deployments that want replicas and have none serving, with the
// detail of their status.
func waitingDeployments(all []*messages.DeploymentStatus) map[string]string {
	names := map[string]string{}
	for _, d := range all {
		if wantsServing(d) && serving(d) == 0 {
			names[d.GetSpec().GetName()] = withoutPaths(d.GetDetail())
		}
	}
	return names
}

var absolutePath = regexp.MustCompile(`(^|[\s"'(=:])/[^\s"',;:()]+`)

// withoutPaths reduces each absolute path in a text to its last element. It keeps paths of this
// API.
func withoutPaths(text string) string {
	return absolutePath.ReplaceAllStringFunc(text, func(found string) string {
		at := strings.IndexByte(found, '/')
		if strings.HasPrefix(found[at:], "/v1/") {
			return found
		}
		return found[:at] + path.Base(found[at:])
	})
}
