package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fields lists the exported fields of a struct and of those inside it by their paths, with values.
func fields(path string, v reflect.Value, into map[string]string) {
	for i := range v.NumField() {
		name := path + v.Type().Field(i).Name
		switch f := v.Field(i); {
		case !v.Type().Field(i).IsExported():
		case f.Kind() == reflect.Struct:
			fields(name+".", f, into)
		case f.CanInt(), f.CanUint():
			into[name] = fmt.Sprint(f.Interface())
		}
	}
}

// TestEachLimitReachesItsPlace sets one field of Limits at a time: one field of the internal
// configuration gets its value, and no other changes.
func TestEachLimitReachesItsPlace(t *testing.T) {
	places := map[string]string{
		"MaxLeases": "Node.MaxLeases", "MaxPendingBytes": "Node.MaxPendingBytes", "RequestTimeout": "Node.RequestTimeout",
		"MaxTailBytes": "Node.MaxTailBytes", "MaxLearners": "Node.MaxLearners",
		"MaxWatches": "Node.Watch.MaxWatchers", "MaxWatchBytes": "Node.Watch.MaxBytes",
		"AnswerBytes": "API.AnswerBytes", "MaxTxnOps": "API.MaxTxnOps", "MaxCallsPerConnection": "API.MaxConcurrentStreams",
		"KeepAliveMinTime": "API.KeepAliveMinTime", "KeepAliveInterval": "API.KeepAliveInterval", "KeepAliveTimeout": "API.KeepAliveTimeout",
	}
	configured := func(l Limits) map[string]string {
		m, err := Config{Limits: l}.member()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		fields("", reflect.ValueOf(m), all)
		return all
	}
	without := configured(Limits{})
	for i := range reflect.TypeFor[Limits]().NumField() {
		var l Limits
		name, f := reflect.TypeFor[Limits]().Field(i).Name, reflect.ValueOf(&l).Elem().Field(i)
		f.SetInt(int64(time.Minute)>>8 + int64(i)) // bytes, operations: 234 million
		if f.Type() == reflect.TypeFor[time.Duration]() {
			f.SetInt(int64(time.Minute) + int64(i))
		}
		var changed []string
		for path, value := range configured(l) {
			if value != without[path] {
				changed = append(changed, path+" = "+value)
			}
		}
		if want := fmt.Sprintf("%s = %v", places[name], f.Interface()); len(changed) != 1 || changed[0] != want {
			t.Errorf("Limits.%s changes %q in the member, want %q", name, changed, want)
		}
	}
}

// TestLimitsThatCannotBe: Start refuses them, and the error names the field and the way out.
func TestLimitsThatCannotBe(t *testing.T) {
	for i := range reflect.TypeFor[Limits]().NumField() {
		var l Limits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(-1)
		name := reflect.TypeFor[Limits]().Field(i).Name
		_, err := Start(Config{Limits: l})
		if err == nil || !strings.Contains(err.Error(), "Limits."+name+" is ") || !strings.Contains(err.Error(), "set it to ") {
			t.Errorf("with a negative %s Start says %v, want it refused with the field and a remedy", name, err)
		}
	}
	for _, c := range []struct {
		cfg  Config
		want string // empty: it is taken
	}{
		{Config{Limits: Limits{MaxPendingBytes: 3<<20 - 1}}, "Limits.MaxPendingBytes is 3145727: set it to 3145728 or more"},
		{Config{Limits: Limits{MaxPendingBytes: 3 << 20}}, ""},
		{Config{MaxRequestBytes: 1 << 20, Limits: Limits{MaxPendingBytes: 2 << 20, MaxTailBytes: 4 << 20}}, ""},
		{Config{MaxRequestBytes: 1 << 20, Limits: Limits{MaxTailBytes: 4<<20 - 1}}, "Limits.MaxTailBytes is 4194303: set it to 4194304 or more"},
		{Config{Limits: Limits{MaxTailBytes: 6<<20 - 1}}, "Limits.MaxTailBytes"},
		{Config{Limits: Limits{AnswerBytes: 64<<10 - 1}}, "Limits.AnswerBytes"},
		{Config{Limits: Limits{AnswerBytes: 64 << 10}}, ""},
		{Config{Limits: Limits{MaxCallsPerConnection: 1 << 32}}, "Limits.MaxCallsPerConnection is 4294967296: set it to 4294967295 or less"},
		{Config{Limits: Limits{MaxCallsPerConnection: 1<<32 - 1}}, ""},
		{Config{Limits: Limits{MaxLeases: 1, MaxTxnOps: 1, MaxLearners: 1, MaxWatches: 1, KeepAliveMinTime: 1}}, ""},
		{Config{Limits: Limits{MaxWatchBytes: 4<<20 - 1}}, "Limits.MaxWatchBytes"},
		{Config{Limits: Limits{MaxWatchBytes: 4 << 20}}, ""},
		{Config{Limits: Limits{RequestTimeout: time.Second - 1}}, "Limits.RequestTimeout is 999.999999ms: set it to 1s or more"},
		{Config{Limits: Limits{RequestTimeout: time.Second}}, ""},
		{Config{ElectionTimeout: 2 * time.Second, Limits: Limits{RequestTimeout: time.Second}}, "Limits.RequestTimeout is 1s: set it to 2s or more"},
		{Config{Limits: Limits{RequestTimeout: time.Hour}}, ""},
		{Config{Limits: Limits{RequestTimeout: time.Hour + 1}}, "set it to 1h0m0s or less"},
		{Config{Limits: Limits{KeepAliveInterval: time.Second - 1}}, "Limits.KeepAliveInterval"},
		{Config{Limits: Limits{KeepAliveTimeout: 100*time.Millisecond - 1}}, "Limits.KeepAliveTimeout"},
		{Config{Limits: Limits{KeepAliveInterval: time.Second, KeepAliveTimeout: 100 * time.Millisecond}}, ""},
	} {
		_, err := c.cfg.member()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.cfg.Limits, err, c.want)
		}
	}
}
