package gateway

import (
	"net/http"
	"time"

	"troupe/internal/audit"
)

// auditedEndpoints are the endpoints that change state. All their requests are audited.
var auditedEndpoints = map[string]bool{"load_lora_adapter": true, "unload_lora_adapter": true}

// audit records state changes and unauthorized or forbidden requests.
func (g *Gateway) audit(a asked, status int) {
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	if !refused && !auditedEndpoints[a.endpoint] {
		return
	}
	e := audit.Entry{
		Via:     "http",
		Who:     audit.Unknown,
		Address: a.remote,
		Action:  "http." + a.endpoint,
		Object:  a.object,
		Request: a.id,
		Result:  audit.Done,
	}
	if a.key != nil {
		e.Who = "key:" + a.key.Name
	}
	if !a.began.IsZero() {
		e.Millis = time.Since(a.began).Milliseconds()
	}
	switch {
	case refused:
		e.Result, e.Reason = audit.Refused, http.StatusText(status)
	case status >= http.StatusBadRequest:
		e.Result, e.Reason = audit.Failed, http.StatusText(status)
	}
	g.cfg.Audit.Record(e)
}
