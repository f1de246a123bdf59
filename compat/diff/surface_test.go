package diff

import "testing"

// TestSpacesOfProtobuf has the texts of two programs compared, of which each has spaces of its own.
func TestSpacesOfProtobuf(t *testing.T) {
	s := &site{members: []uint64{77}}
	for _, told := range []string{"memberID:77 alarm:NOSPACE", "memberID:77  alarm:NOSPACE", "memberID:77\u00a0alarm:NOSPACE"} {
		if got := s.plain(told); got != "memberID:member 0 alarm:NOSPACE" {
			t.Errorf("%q is read as %q", told, got)
		}
	}
}
