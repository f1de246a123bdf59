package kube

// object is as much of a Kubernetes object as the tests look at.
type object struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
}

type metadata struct {
	Name            string `json:"name,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
}

// list is a page of objects.
type list struct {
	Metadata metadata `json:"metadata"`
	Items    []object `json:"items"`
}

// event is what a watch tells.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// configMap is an object that nothing else in a cluster changes.
func configMap(name, value string) object {
	return object{APIVersion: "v1", Kind: "ConfigMap", Metadata: metadata{Name: name}, Data: map[string]string{"value": value}}
}
