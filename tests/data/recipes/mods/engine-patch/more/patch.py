print("patched")
