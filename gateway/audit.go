package gateway

import (
	"net/http"

	"troupe/internal/audit"
)

// auditedEndpoints are the endpoints that change state. All their requests are audited.
var auditedEndpoints = map[string]bool{"load_lora_adapter": true, "unload_lora_adapter": true}

// audit records state changes and unauthorized or forbidden requests.
func (g *Gateway) audit(info requestInfo, status int) {
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	if !refused && !auditedEndpoints[info.endpoint] {
		return
	}
	e := audit.Entry{
		Via:     "http",
		Who:     audit.Unknown,
		Address: info.remote,
		Action:  "http." + info.endpoint,
		Object:  info.object,
		Request: info.id,
		Result:  audit.Done,
	}
	if info.key != nil {
		e.Who = "key:" + info.key.Name
	}
	if !info.started.IsZero() {
		e.Millis = g.cfg.Runtime.Now().Sub(info.started).Milliseconds()
	}
	switch {
	case refused:
		e.Result, e.Reason = audit.Refused, http.StatusText(status)
	case status >= http.StatusBadRequest:
		e.Result, e.Reason = audit.Failed, http.StatusText(status)
	}
	g.cfg.Audit.Record(e)
}
