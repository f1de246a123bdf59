package k8s

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The manifests of dist have the fields of Kubernetes' own types and no others, and what belongs together in them
// does.
func TestManifests(t *testing.T) {
	manifests := func(file string) []string {
		text, err := os.ReadFile("../dist/kubernetes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n---\n")
	}
	var (
		set      appsv1.StatefulSet
		pod      corev1.Pod
		budget   policyv1.PodDisruptionBudget
		services []corev1.Service
	)
	for _, text := range append(manifests("statefulset.yaml"), manifests("static-pod.yaml")...) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		var service corev1.Service
		into := map[string]any{"v1 Service": &service, "apps/v1 StatefulSet": &set, "policy/v1 PodDisruptionBudget": &budget, "v1 Pod": &pod}[kind.APIVersion+" "+kind.Kind]
		if into == nil {
			t.Fatalf("no such kind: %+v", kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		if kind.Kind == "Service" {
			services = append(services, service)
		}
	}
	labels := set.Spec.Template.Labels
	for _, service := range services {
		if service.Spec.Selector["app"] != labels["app"] || labels["app"] == "" {
			t.Errorf("service %s selects %v", service.Name, service.Spec.Selector)
		}
	}
	if len(services) != 2 || services[1].Name != set.Spec.ServiceName || !services[1].Spec.PublishNotReadyAddresses {
		t.Error("the members do not find each other by the set's service before they are ready")
	}
	if set.Spec.Selector.MatchLabels["app"] != labels["app"] || budget.Spec.Selector.MatchLabels["app"] != labels["app"] || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Error("the set selects others, or waits for one member to be ready before it starts the next")
	}
	for _, of := range [][]corev1.Container{set.Spec.Template.Spec.Containers, pod.Spec.Containers} {
		if len(of) != 1 {
			t.Fatalf("%d containers", len(of))
		}
		c := of[0]
		for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/livez ": c.StartupProbe, "/readyz": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != strings.TrimSpace(path) {
				t.Errorf("a probe is %+v, want %s", probe, path)
			}
		}
		if !slices.Contains(c.Args, "serve") || !slices.ContainsFunc(c.Args, func(a string) bool {
			return strings.HasPrefix(a, "--listen-metrics-urls=") && strings.HasSuffix(a, ":2381")
		}) {
			t.Errorf("nothing listens where the probes ask: %q", c.Args)
		}
		if len(c.VolumeMounts) == 0 || !slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--data-dir="+c.VolumeMounts[0].MountPath) }) {
			t.Errorf("the data are in no volume: %q", c.Args)
		}
	}
	for i := range *set.Spec.Replicas {
		name := "tenure-" + string('0'+i)
		if !strings.Contains(strings.Join(set.Spec.Template.Spec.Containers[0].Args, " "), name+"=http://"+name+"."+set.Spec.ServiceName+":2380") {
			t.Errorf("%s is not in --initial-cluster", name)
		}
	}
}
