package httpapi

import (
	"encoding/json"
	"net/http"

	"go.etcd.io/etcd/api/v3/version"
)

// serveVersion answers /version, by which clients find out which API they may use.
func serveVersion(w http.ResponseWriter, r *http.Request, versions version.Versions) {
	if !gets(w, r) {
		return
	}
	body, err := json.Marshal(versions)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}
