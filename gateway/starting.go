package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"troupe/gateway/openai"
	"troupe/messages"
)

// StartingHandler returns the handler of a node whose gateway is not there yet: /live answers 200, /ready 503
// with the cause starting, and everything else is refused.
func StartingHandler() http.Handler {
	mux := http.NewServeMux()
	live := func(w http.ResponseWriter, r *http.Request) {
		setRequestID(w, r)
		writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
	}
	mux.HandleFunc("GET /live", live)
	mux.HandleFunc("GET /health", live)
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		setRequestID(w, r)
		body, _ := json.Marshal(readiness{Causes: []Cause{CauseStarting}}) // strings and a bool: it never fails
		writeJSON(w, http.StatusServiceUnavailable, body)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		setRequestID(w, r)
		e := openai.Refusal(
			messages.Reason_REASON_NOT_READY,
			"this node is starting; /ready answers 200 once it serves",
		)
		e.RetryAfter = time.Second
		w.Header().Set("Retry-After", retryAfter(e))
		w.Header().Set("Connection", "close") // the body was not read
		writeJSON(w, e.Status, e.JSON())
	})
	return mux
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s\n", body) // the client may have left
}
