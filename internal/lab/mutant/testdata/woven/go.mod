module example.test/woven

go 1.24
