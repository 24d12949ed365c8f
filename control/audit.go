package control

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"troupe/cluster/service"
	"troupe/internal/audit"
	"troupe/messages"
)

// readOnly holds the endpoints that change nothing. Their requests are not audited.
var readOnly = map[string]bool{
	"models-list": true, "models-get": true,
	"adapters-list": true, "adapters-get": true, "adapters-stats": true,
	"replicas-list": true, "keys-list": true, "explain": true, "kv-stats": true,
	"nodes-list": true, "gpus-list": true, "tree": true, "node-status": true, "node-tree": true, "node-model": true,
	"capacity-report": true,
	"planner-get":     true, "planner-plan": true, "planner-explain": true, "planner-history": true,
	"node-adapters": true,
}

// auditRequest records a request to an endpoint and its outcome, unless the request changes
// nothing.
func (c *control) auditRequest(
	r *service.Request,
	endpoint string,
	req proto.Message,
	outcome messages.Reason,
	began time.Time,
) {
	if !isChange(endpoint, req) {
		return
	}
	e := audit.Entry{
		Via: "nats", Who: r.Sender().Name(), Action: strings.ReplaceAll(endpoint, "-", "."),
		Subject: r.Subject(), Object: objectOf(req), Result: audit.Done,
		Millis: c.Runtime.Now().Sub(began).Milliseconds(),
	}
	switch outcome {
	case messages.Reason_REASON_UNSPECIFIED:
	case messages.Reason_REASON_FORBIDDEN:
		e.Result, e.Reason = audit.Refused, outcome.String()
	default:
		e.Result, e.Reason = audit.Failed, outcome.String()
	}
	c.Audit.Record(e)
}

// identifying are the request fields that identify the object of a request. Prompts and texts are
// not among them.
var identifying = []protoreflect.Name{
	"name",
	"model",
	"adapter",
	"path",
	"node",
	"replica",
	"from",
	"to",
	"tier",
	"replicas",
	"pinned",
	"untested",
}

// objectOf returns the object of a request in the form "name=kjv replicas=3".
func objectOf(m proto.Message) string {
	var parts []string
	var add func(prefix string, m protoreflect.Message)
	add = func(prefix string, m protoreflect.Message) {
		for _, name := range identifying {
			f := m.Descriptor().Fields().ByName(name)
			if f != nil && !f.IsList() && !f.IsMap() && f.Kind() != protoreflect.MessageKind && m.Has(f) {
				parts = append(parts, fmt.Sprintf("%s%s=%v", prefix, name, m.Get(f).Interface()))
			}
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap() {
				add(prefix+string(f.Name())+".", v.Message())
			}
			return true
		})
	}
	add("", m.ProtoReflect())
	return strings.Join(parts, " ")
}
