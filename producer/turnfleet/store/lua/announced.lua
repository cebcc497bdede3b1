-- The announcements of workers that are alive; nothing is changed.
return (alive())
