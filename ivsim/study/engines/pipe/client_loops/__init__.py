"""The engine `clients`: one client library after another in a process of its own, the same loops, one platform's servers."""
