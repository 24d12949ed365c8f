package whatif

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/messages"
)

// settable are the fields that can be changed.
const settable = "min_replicas, max_replicas, replicas, priority, slo.ttft, slo.tpot and idle_after"

// change returns a deployment with another value of a field. The text is "chat.max_replicas=8".
func (c *Cluster) change(text string) error {
	key, value, ok := strings.Cut(text, "=")
	model, field, of := cutModel(key)
	m := c.find(model)
	switch {
	case !ok || !of:
		return fmt.Errorf("--set %q is not of the form chat.max_replicas=8", text)
	case m == nil:
		return fmt.Errorf("--set %s: no deployment %q; troupe top lists them", text, model)
	}
	spec := proto.CloneOf(m.GetSpec())
	if err := setField(spec, field, value); err != nil {
		return fmt.Errorf("--set %s: %w", text, err)
	}
	m.Spec = spec
	return nil
}

// cutModel splits "chat.slo.ttft". The name of a model may have dots.
func cutModel(key string) (model, field string, ok bool) {
	for _, group := range []string{".slo.", "."} {
		if i := strings.LastIndex(key, group); i > 0 {
			return key[:i], key[i+1:], true
		}
	}
	return "", "", false
}

func setField(s *messages.DeploymentSpec, field, value string) error {
	switch field {
	case "min_replicas", "max_replicas", "replicas":
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is not a number of replicas", value)
		}
		*map[string]**uint32{"min_replicas": &s.MinReplicas, "max_replicas": &s.MaxReplicas,
			"replicas": &s.Replicas}[field] = new(uint32(n))
	case "priority":
		p, known := messages.PriorityByName(value)
		if !known {
			return fmt.Errorf("%q is no priority; use critical, high, standard or batch", value)
		}
		s.Priority = &p
	case "slo.ttft", "slo.tpot", "idle_after":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a time; write it like 200ms", value)
		}
		if field == "idle_after" {
			s.IdleAfter = new(uint32(d / time.Second))
			return nil
		}
		if s.Slo = proto.CloneOf(s.GetSlo()); s.Slo == nil {
			s.Slo = &messages.Slo{}
		}
		if field == "slo.ttft" {
			s.Slo.Ttft = durationpb.New(d)
		} else {
			s.Slo.Tpot = durationpb.New(d)
		}
	default:
		return fmt.Errorf("%s cannot be changed here; the fields are %s", field, settable)
	}
	return nil
}

// demand changes the requests for a model. The text is "chat=2x" or "chat=1.5/s".
func (c *Cluster) demand(text string, rates map[string]float64) error {
	model, value, ok := strings.Cut(text, "=")
	m := c.find(model)
	factor, times := strings.CutSuffix(value, "x")
	rate, perSecond := strings.CutSuffix(value, "/s")
	n, err := strconv.ParseFloat(strings.TrimSuffix(factor, "/s"), 64)
	switch {
	case !ok || times == perSecond || err != nil || !(n >= 0) || math.IsInf(n, 1):
		return fmt.Errorf("--demand %q is not of the form chat=2x, or chat=1.5/s for requests per second", text)
	case m == nil:
		return fmt.Errorf("--demand %s: no deployment %q; troupe top lists them", text, model)
	case times && rates[model] == 0:
		return fmt.Errorf("--demand %s: %s had no request in the last minute; write its requests per second, such as "+
			"--demand %s=1.5/s", text, model, model)
	case times:
		rates[model] *= n
	default:
		rates[model], _ = strconv.ParseFloat(rate, 64)
	}
	return nil
}

func (c *Cluster) find(model string) *messages.DeploymentStatus {
	for _, m := range c.Models {
		if m.GetSpec().GetName() == model {
			return m
		}
	}
	return nil
}
