package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"troupe/actors/supervise"
	"troupe/gateway/openai"
	"troupe/gateway/web"
	"troupe/messages"
)

// StartingHandler returns the handler of a node whose gateway has not started. /live responds with
// 200 and /ready with 503 and CauseStarting. All other requests are refused.
func StartingHandler(rt supervise.Runtime) http.Handler {
	mux := http.NewServeMux()
	live := func(w http.ResponseWriter, r *http.Request) {
		setRequestID(rt, w, r)
		writeJSONBody(w, http.StatusOK, []byte(`{"status":"ok"}`))
	}
	mux.HandleFunc("GET /live", live)
	mux.HandleFunc("GET /health", live)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		setRequestID(rt, w, r)
		body, _ := json.Marshal(readiness{Causes: []Cause{CauseStarting}}) // cannot fail: strings and a bool
		writeJSONBody(w, http.StatusServiceUnavailable, body)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		setRequestID(rt, w, r)
		e := openai.Refusal(messages.Reason_REASON_NOT_READY,
			"this node is starting; /ready returns 200 once it serves requests")
		e.RetryAfter = time.Second
		w.Header().Set("Retry-After", retryAfter(e))
		web.CloseAfter(w, r) // the body was not read
		writeJSONBody(w, e.Status, e.JSON())
	})
	return mux
}

func writeJSONBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s\n", body) // fails if the client has left
}
