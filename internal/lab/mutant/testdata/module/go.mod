module example.test/abs

go 1.24
